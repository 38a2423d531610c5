"""How good the answers of a collection are, on items whose labels are known."""
