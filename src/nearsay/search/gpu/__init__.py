"""What a graphics card is given to do: ``search/gpu/gpu_search.py`` is the way in."""
