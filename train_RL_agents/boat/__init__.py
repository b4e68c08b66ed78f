"""Runtime of a policy on board. ``marinenav export --format onnx`` copies this package beside the policy.

It needs numpy and onnxruntime, its node rclpy, and nothing else of this project: no torch.
"""
