"""Images to vectors: named descriptors, each with the distance that fits it."""

from nearsay.describe.descriptor import Descriptor, ImageDescriptor
from nearsay.describe.folder import ImageDescriptions, SkippedImage, describe_images
from nearsay.describe.local import BagOfWords
from nearsay.describe.named import DESCRIPTORS, MAKADIA, as_descriptor
from nearsay.describe.reading import image_files, read_image

__all__ = [
    "DESCRIPTORS",
    "MAKADIA",
    "BagOfWords",
    "Descriptor",
    "ImageDescriptions",
    "ImageDescriptor",
    "SkippedImage",
    "as_descriptor",
    "describe_images",
    "image_files",
    "read_image",
]
