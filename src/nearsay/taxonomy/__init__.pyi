from nearsay.taxonomy.named import load_taxonomy as load_taxonomy
from nearsay.taxonomy.taxonomy import Taxonomy as Taxonomy
from nearsay.taxonomy.words import words_for_nodes as words_for_nodes
