"""What a layout costs: memory, time, traffic."""
