"""What every other package uses: files, devices, signals, progress, CUDA graphs."""
