"""Runtime of a policy on board a boat; ``marinenav export --format onnx`` copies this package next to the policy.

It needs numpy and onnxruntime, and for the ROS 2 node rclpy, but neither torch nor other parts of this project.
"""
