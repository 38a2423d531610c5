"""Images to vectors: named descriptors and encoders, each with the distance that fits it."""

from nearsay.data.images import image_files, read_image
from nearsay.describe.descriptor import Descriptor, ImageDescriptor
from nearsay.describe.encoder import Encoder, ImageEncoder, Preprocessing
from nearsay.describe.encoder_onnx import OnnxEncoder
from nearsay.describe.encoder_torch import TorchEncoder, default_encoder
from nearsay.describe.folder import ImageDescriptions, SkippedImage, describe_images
from nearsay.describe.local import BagOfWords
from nearsay.describe.named import DESCRIPTORS, MAKADIA, as_descriptor

__all__ = [
    "DESCRIPTORS",
    "MAKADIA",
    "BagOfWords",
    "Descriptor",
    "Encoder",
    "ImageDescriptions",
    "ImageDescriptor",
    "ImageEncoder",
    "OnnxEncoder",
    "Preprocessing",
    "SkippedImage",
    "TorchEncoder",
    "as_descriptor",
    "default_encoder",
    "describe_images",
    "image_files",
    "read_image",
]
