"""Keywords for Corel5K by learned rankings (Cui, Li, Zhang and Zhang 2013) and by us: ``figures.run``."""
