"""What the pooled posterior is made of: features, weights that past cases teach, and which members pay."""
