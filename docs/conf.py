"""Sphinx settings of the site, which `make docs` (``tools/build_site.py``) builds.

No setting may make a page load external content; a Chromium test checks the requests.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

project = "odps_nb"
author = "the authors of odps_nb"
copyright = "the authors of odps_nb; Apache-2.0"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_copybutton",
    "site_magics",
]
exclude_patterns = ["_static", "images/*.md"]
# a table of contents may have a pattern without matches
suppress_warnings = ["toc.empty_glob", "mystnb.unknown_mime_type"]
nitpicky = True
# Types of other libraries and internal types have no page here. Links between pages are checked,
# these references are not.
nitpick_ignore_regex = [("py:.*", ".*")]
default_role = "py:obj"

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # tools/build_site.py runs them, with the embedded service
nb_render_markdown_format = "myst"

autodoc_typehints = "signature"
autodoc_member_order = "groupwise"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "odps_nb"
html_static_path = [str(ROOT / "docs" / "_static")]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}
