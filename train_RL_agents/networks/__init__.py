"""Parts of networks: what they observe, encoders, layers."""
