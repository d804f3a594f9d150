"""The configuration of Sphinx. The source folder is the root of the repository: READMEs of packages are pages, too."""

# ruff: noqa: INP001 - a file of Sphinx, not a package

from importlib.metadata import version as version_of

project = "ludus"
author = "The ludus developers"
project_copyright = "The ludus developers"
version = release = version_of("ludus")

root_doc = "docs/index"
include_patterns = ["docs/**", "*.md", "*/README.md", "*/*/README.md", "benchmarks/results/*.md"]
exclude_patterns = [".*"]  # of tools, such as the cache of pytest
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = f"ludus {version}"

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
# Single backticks in docstrings are names of code; those of other packages lead nowhere.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": False, "show-inheritance": True}
napoleon_use_ivar = True
suppress_warnings = ["ref.python"]  # names that several classes define, such as `close`, link to none of them
