"""What a graphics card is given to do: ``search/gpu.py`` is the way in."""
