"""What is new, what is there twice, and which labels are wrong: ours beside what others use."""
