"""What to do next with a collection: likely mistakes, near-duplicates, groups, and items to label."""
