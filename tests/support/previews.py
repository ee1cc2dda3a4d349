"""Files, values and drawn tiles for tests of previews."""

import base64
import io
from html.parser import HTMLParser

from PIL import Image

from odps_nb.notebook.preview.tile import tile

NASTY = "\"><img src=x onerror=alert(1)><script>alert(2)</script>'&lt;"


class File(io.BytesIO):
    """An opened blob that counts the bytes read, and may fail during a read."""

    verified = True

    def __init__(self, blob):
        super().__init__(blob.data)
        self._blob = blob

    def read(self, size=-1):
        if self._blob.error is not None and self.tell() + size > self._blob.fails_at:
            raise self._blob.error
        data = super().read(size)
        self._blob.was_read += len(data)
        return data

    def close(self):
        self._blob.was_closed = True
        super().close()


class Value:
    """A blob as a value."""

    def __init__(self, data, mime_type="", file_name="", *, error=None, fails_at=0, size=True):
        self.data, self.mime_type, self.file_name = data, mime_type, file_name
        self.size = len(data) if size else None
        self.error, self.fails_at = error, fails_at
        self.opened, self.was_read, self.was_closed = 0, 0, False

    def open(self):
        self.opened += 1
        return File(self)

    def save(self, path):
        raise AssertionError("a preview saves nothing")


class Column(list):
    """Blobs as values, in place of a `BlobColumn`."""

    title = "media.content"

    def caption(self, index):
        return f"blob {index}"

    def _inspected(self, places, cancel=None):
        yield from (self[place] for place in places)


class Seen(HTMLParser):
    """The tags, attributes and text of an HTML fragment."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data):
        self.text += data

    def values(self, name):
        return [value for _, found, value in self.attributes if found == name]


def picture_in(page, attribute="src"):
    """Return the picture in the only data URL of a page."""
    (source,) = page.values(attribute)
    return Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2])))


def seen(data, mime_type="", file_name="", **options):
    return Seen(tile(Value(data, mime_type, file_name), **options).html)
