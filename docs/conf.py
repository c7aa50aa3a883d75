"""Configuration of the documentation: `sphinx-build -W -n -b html docs docs/_build/html`."""

import os
import sys
from functools import partialmethod
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from nbclient import NotebookClient
from sphinx import addnodes
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import public_names

import speculative

project = "speculative"
author = copyright = "The speculative authors"
version = release = speculative.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
nitpicky = True
nitpick_ignore_regex = [  # what lies outside the package is not linked: the build needs no network
    ("py:.*", r"(numpy|collections|concurrent|fractions|typing|hypothesis|matplotlib|rich|tokenizers)\..*"),
    ("py:exc", r"[A-Z]\w*Error"),
    ("py:class", r"[a-z]+"),  # words that docstrings use for types: callable, mapping, optional
]

# Text and executed code: every page that shows a number computes it.
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
NotebookClient.__init__ = partialmethod(  # nb_merge_streams would break the line where a piece ends
    NotebookClient.__init__, coalesce_streams=True
)
nb_code_prompt_show = "Show the code of this cell"
nb_code_prompt_hide = "Hide the code of this cell"
nb_render_markdown_format = "myst"

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
bibtex_reference_style = "author_year"

os.environ |= {  # for commands run in cells: plain text; the kernel sets FORCE_COLOR, which typer would obey
    "COLUMNS": "100",
    "NO_COLOR": "1",
    "TTY_COMPATIBLE": "0",
    "_TYPER_FORCE_DISABLE_TERMINAL": "1",
}
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

# Reference: one page a module, from docstrings in numpy style.
autosummary_generate = True
autosummary_imported_members = False
autodoc_default_options = {"members": True, "special-members": "__call__"}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say types in words
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_preprocess_types = False
default_role = "code"  # single backticks in docstrings
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True

LONGEST_VALUE = 200  # characters; constants have theirs shown up to here, which leaves out tables

html_theme = "furo"
html_title = "speculative"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_math_renderer = "mathml"  # drawn by the browser itself: no script, no network
html_show_sphinx = False
html_copy_source = False


def _mathml(as_block):
    def visit(self, node):
        try:
            self.body.append(latex2mathml.tex2mathml(node.astext(), as_block=as_block))
        except MathError as error:
            logging.getLogger(__name__).warning("%s: %s", error, node.astext(), location=node)
        raise nodes.SkipNode

    return visit


def _described_fields():
    """Return the identities of those fields of NamedTuples that a docstring describes below them."""
    return {
        id(vars(thing)[field])
        for module in public_names.modules()
        for _, thing in public_names.names(module)
        for field in getattr(thing, "_fields", ())
        if (thing.__name__, field) in ModuleAnalyzer.for_module(thing.__module__).find_attr_docs()
    }


def _skip(_app, _what, _name, *rest):
    """Leave out the descriptions that Python itself writes for the fields of a NamedTuple."""
    thing, skip, _options = rest
    by_python = str(getattr(thing, "__doc__", "")).startswith("Alias for field number")
    return True if by_python and id(thing) not in DESCRIBED_FIELDS else skip


DESCRIBED_FIELDS = _described_fields()


def _keep_colons(_app, what, *rest):
    """Keep napoleon from reading "Tokens kept: ..." in the description of an attribute as a type."""
    lines = rest[-1]
    if what in ("attribute", "data", "property"):
        lines[:0] = [".. a comment, where napoleon looks for the type", ""]


def _drop_long_value(_app, _domain, _kind, content):
    """Drop the value of a constant from its heading where it is longer than a heading should be."""
    for value in list(content.parent.findall(addnodes.desc_annotation)):
        if len(value.astext()) > LONGEST_VALUE:
            value.parent.remove(value)


def _by_last_part(app, env, node, contnode):
    """Resolve a reference from another module, `Oracle.score`, where only one object is called so."""
    if node.get("refdomain") != "py":
        return None
    domain = env.domains.python_domain
    found = [name for name in domain.objects if name.endswith(f".{node['reftarget']}")]
    if len(found) != 1:
        return None
    place = domain.objects[found[0]]
    return make_refnode(app.builder, node["refdoc"], place.docname, place.node_id, contnode, found[0])


def _check_public_names(app):
    """Fail the build (with -W) for a public name without a docstring, and for a module without a page."""
    log = logging.getLogger(__name__)
    for name in public_names.undocumented():
        log.warning("%s is public and has no docstring", name)
    pages = (Path(app.srcdir) / "reference" / "modules.md").read_text(encoding="utf-8")
    for name in public_names.modules():
        if f"   {name}\n" not in pages:
            log.warning("%s is public and missing from docs/reference/modules.md", name)


def setup(app):
    """Connect the math renderer and the checks."""
    app.add_html_math_renderer("mathml", (_mathml(False), None), (_mathml(True), None))
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _keep_colons, priority=400)
    app.connect("object-description-transform", _drop_long_value)
    app.connect("missing-reference", _by_last_part)
    app.connect("builder-inited", _check_public_names)
