from nearsay.data.annotated_rows import AnnotatedRows as AnnotatedRows
from nearsay.data.corel5k import AnnotatedImages as AnnotatedImages
from nearsay.data.datasets import load_dataset as load_dataset
from nearsay.data.emoji_pictures import EmojiPictures as EmojiPictures
from nearsay.data.files import read_images as read_images
from nearsay.data.files import read_rows as read_rows
from nearsay.data.files import write_rows as write_rows
from nearsay.data.rows import LabeledRows as LabeledRows
