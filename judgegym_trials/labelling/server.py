"""Local page on which people label rows, without seeing whose response it is or its judgment.

Guarantees: nothing that is sent to the browser holds the name of a model or judge, a row's id, a
score, a judgment or the path of the run; the address has a secret, so that other users of the
machine and pages of other sites can neither read rows nor write labels; all texts are shown as
text.

A page is one row. A key presses a button, whose form is saved before the next row is sent: the page
works without its script, too.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

from aiohttp import web
from aiohttp.typedefs import Handler

from judgegym.engine.terminal.output import warn
from judgegym.judges.core.judgment import Status
from judgegym.judges.core.seeding import derive_seed
from judgegym.llm.errors import UserError
from judgegym.reports.document import document, render
from judgegym.reports.view.loopback import html_response, loopback_app, serve_on_loopback
from judgegym_trials.labelling.questions import QuestionPart, list_label_texts
from judgegym_trials.labelling.session import Precision, Session

CANNOT_TELL = "x"
_EMPTY: Mapping[str, object] = dict.fromkeys(
    ("labeller", "problem", "row", "precision", "given", "undoes"), ""
)
"""Variables of the template that every page sets."""
_STATIC = Path(__file__).parent / "static"
_LONGEST_NAME = 80


async def serve(session: Session, host: str, port: int, *, opens: bool) -> int:
    """Serve the page until a signal; return its exit code.

    Raises:
        SettingsError: the port cannot be opened.
    """
    import scipy.special  # noqa: F401  # takes a second: load it now

    secret = secrets.token_urlsafe(16)
    announcement = f"label the rows of {session.run.path} at {{url}} (Ctrl-C stops)"
    return await serve_on_loopback(
        make_app(session, secret), host, port, announcement, path=f"{secret}/", opens=opens
    )


def make_app(session: Session, secret: str) -> web.Application:
    """Build the application; all its addresses begin with a secret."""
    views = _Views(session, secret)
    app = loopback_app(_explain_problems)
    app.router.add_get(f"/{secret}/", views.start, allow_head=False)
    app.router.add_get(f"/{secret}/row", views.row, allow_head=False)
    app.router.add_post(f"/{secret}/label", views.label)
    app.router.add_post(f"/{secret}/undo", views.undo)
    return app


@web.middleware
async def _explain_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Respond with a page that explains why an address is unknown or why nothing was saved."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return _render_page(
            "There is nothing here", {"problem": "The terminal shows the address of the page."}, 404
        )
    except UserError as error:
        warn(str(error))  # not on the page: paths contain names of models
        problem = "The terminal says why. What was saved before is safe; go back and try again."
        return _render_page("This was not saved", {"problem": problem}, 500)


def _render_page(
    title: str, values: Mapping[str, object] = _EMPTY, status: int = 200
) -> web.Response:
    body = render(_STATIC / "label.html", title=title, **{**_EMPTY, **values})
    styles = [_STATIC / "label.css"]
    scripts = [_STATIC / "label.js"]
    parts = document(title=title, body=body, styles=styles, scripts=scripts, sends_forms=True)
    return html_response(b"".join(parts), status)


class _Views:
    def __init__(self, session: Session, secret: str) -> None:
        self._session = session
        self._secret = secret
        self._uids = {self._make_name(uid): uid for uid in session.order}

    def _make_name(self, uid: str) -> str:
        """Name a row on the page: its id could tell whose response it is."""
        number = derive_seed(0, uid, self._secret)
        return f"{number:016x}"

    async def start(self, request: web.Request) -> web.StreamResponse:
        """Ask for the labeller's name."""
        return _render_page("Label responses")

    async def row(self, request: web.Request) -> web.StreamResponse:
        """Show a labeller's next row, or that there is none."""
        session, query = self._session, request.query
        labeller = _read_labeller(query)
        uid = session.next_row(labeller)
        count = session.count_labels(labeller)
        parts = session.question.parts
        precision = format_precision(session.precision())
        shown: dict[str, object] = {
            "labeller": labeller,
            "precision": precision,
            "undoes": count > 0,
        }
        if uid is None:
            return _render_page(f"All done: {count} rows", shown)
        name = self._make_name(uid)
        keys = query.get("given", "")
        is_partial = _is_answered(parts, keys) and len(keys) < len(parts)
        if query.get("row") != name or not is_partial:
            keys = ""
        sample = session.run.read_sample(uid)
        is_first = session.is_first(uid, labeller)
        texts, responses = list_label_texts(
            sample, is_first=is_first, compares=session.question.compares
        )
        shown |= {
            "texts": texts,
            "responses": responses,
            "is_valid": sample.status == Status.OK.value,
        }
        shown |= {"row": name, "given": keys, "part": parts[len(keys)], "parts": parts}
        shown |= {"note": query.get("note", ""), "undoes": count > 0 or keys}
        return _render_page(f"Row {count + 1}", shown)

    async def label(self, request: web.Request) -> web.StreamResponse:
        """Save the answer to a question about a row, and show the next one."""
        form = await _read_form(request)
        labeller = _read_labeller(form)
        note = form.get("note", "").strip()
        parts = self._session.question.parts
        uid = self._uids.get(form.get("row", ""))
        keys = form.get("given", "") + form.get("key", "")
        if uid is None:
            return _redirect_to_row(labeller)
        if form.get("key") == CANNOT_TELL:
            self._session.save(uid, labeller, None, note)
        elif not _is_answered(parts, keys):
            return web.Response(status=400, text="there is no such answer\n")
        elif len(keys) < len(parts):
            return _redirect_to_row(labeller, row=form["row"], given=keys, note=note)
        else:
            self._session.save(uid, labeller, keys, note)
        return _redirect_to_row(labeller)

    async def undo(self, request: web.Request) -> web.StreamResponse:
        """Undo the last answer about this row, or else the labeller's last label."""
        form = await _read_form(request)
        labeller = _read_labeller(form)
        keys = form.get("given", "")
        if keys:
            return _redirect_to_row(
                labeller, row=form.get("row", ""), given=keys[:-1], note=form.get("note", "")
            )
        undone = self._session.undo(labeller)
        if undone is None:
            return _redirect_to_row(labeller, note="")
        return _redirect_to_row(labeller, note=undone.note)


def _is_answered(parts: Sequence[QuestionPart], keys: str) -> bool:
    """Return whether keys are answers to the first questions."""
    options = [{option.key for option in part.options} for part in parts]
    return len(keys) <= len(parts) and all(
        key in part_keys for key, part_keys in zip(keys, options, strict=False)
    )


async def _read_form(request: web.Request) -> Mapping[str, str]:
    return {name: value for name, value in (await request.post()).items() if isinstance(value, str)}


def _read_labeller(fields: Mapping[str, str]) -> str:
    name = " ".join(fields.get("labeller", "").split())
    if not 0 < len(name) <= _LONGEST_NAME:
        raise web.HTTPSeeOther("./")
    return name


def _redirect_to_row(labeller: str, **values: str) -> web.Response:
    """Redirect to the next row, so that reloading the page sends nothing twice."""
    address = urlencode({"labeller": labeller, **values}, errors="replace")
    return web.Response(status=303, headers={"Location": f"row?{address}"})


def format_precision(precision: Precision) -> str:
    """Describe the precision of the corrected result, without the result."""
    rows = f"{precision.labelled:,} of {precision.goal:,} rows labelled"
    if isinstance(precision.half_width, str):
        return f"{rows}; no interval yet: {precision.half_width}"
    now = f"{rows}; 95\u00a0% interval ±\u00a0{precision.half_width:.3f}"
    needed = precision.needed
    wanted = f"±\u00a0{precision.target:g}"
    if precision.half_width <= precision.target or needed is None:
        return now
    if needed.fewest is None:
        return f"{now}; {wanted} takes more rows than there are"
    most = "all there are"
    if needed.most is not None:
        most = f"{needed.most:,}"
    return f"{now}; {wanted} takes {needed.fewest:,} to {most}"
