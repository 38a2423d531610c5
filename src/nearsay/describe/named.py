"""The table of descriptors by name."""

from __future__ import annotations

from typing import Any

from nearsay.describe.color import color_histogram, hsv, lab, rgb
from nearsay.describe.descriptor import Descriptor, ImageDescriptor
from nearsay.describe.layout import hog, thumbnail
from nearsay.describe.shape import contour
from nearsay.describe.texture import gabor, gabor_phases, gist, haar, haar_signs
from nearsay.errors import InputError, unknown_name

# Of one color as many levels a channel in the whole image as Makadia et al.; fewer where each band has bins of its own.
LEVELS, BAND_LEVELS = 16, 12

DESCRIPTORS: dict[str, Descriptor] = {
    descriptor.name: descriptor
    for descriptor in (
        Descriptor("rgb", "manhattan", color_histogram(rgb, LEVELS)),
        Descriptor("hsv", "manhattan", color_histogram(hsv, LEVELS)),
        Descriptor("lab", "manhattan", color_histogram(lab, LEVELS)),
        Descriptor("haar", "manhattan", haar),
        Descriptor("haar_signs", "manhattan", haar_signs),
        Descriptor("gabor", "manhattan", gabor),
        Descriptor("gabor_phases", "manhattan", gabor_phases),
        Descriptor("rgb_3x1", "manhattan", color_histogram(rgb, BAND_LEVELS, n_bands=3)),
        Descriptor("hsv_3x1", "manhattan", color_histogram(hsv, BAND_LEVELS, n_bands=3)),
        Descriptor("lab_3x1", "manhattan", color_histogram(lab, BAND_LEVELS, n_bands=3)),
        Descriptor("gist", "manhattan", gist),
        Descriptor("thumbnail", "euclidean", thumbnail),
        Descriptor("hog", "euclidean", hog),
        Descriptor("contour", "euclidean", contour),
    )
}

# The seven of "A New Baseline for Image Annotation" (Makadia, Pavlovic and Kumar, 2008).
MAKADIA = ("rgb", "hsv", "lab", "haar", "haar_signs", "gabor", "gabor_phases")


def as_descriptor(descriptor: Any) -> ImageDescriptor:
    """Give the descriptor that a name stands for; a descriptor is given back as it is.

    >>> as_descriptor("lab")
    <descriptor lab, compared by manhattan>
    >>> as_descriptor("labb")
    Traceback (most recent call last):
    nearsay.errors.InputError: Unknown descriptor 'labb' (did you mean 'lab'?). Known names: contour, gabor, ...
    """
    if isinstance(descriptor, str):
        if descriptor not in DESCRIPTORS:
            raise unknown_name(
                "descriptor", descriptor, DESCRIPTORS, " Bags of words are learned first: BagOfWords().fit(images)."
            )
        return DESCRIPTORS[descriptor]
    if not isinstance(descriptor, ImageDescriptor) or isinstance(descriptor, type):
        raise InputError(
            "A descriptor is a name, or an object with a name, a metric and a call for one image;"
            f" got {type(descriptor).__name__}. Wrap a function: Descriptor(name, metric, function)."
        )
    return descriptor
