"""The endpoint of all subjects: it says yes at once, in the form that each of them reads.

    python -m benchmarks.peers.endpoint

It prints its port. The first part of a path names the form: `/verifiers/v1/chat/completions`.
"""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

REASON = "Each of its three pieces of advice is common knowledge among gardeners."
FORMS = {
    "judgegym": json.dumps({"reason": REASON, "verdict": 1}),
    "verifiers": f"Yes. {REASON}",
    "inspect_ai": f"{REASON}\n\nGRADE: C",
    "openjudge": json.dumps({"reason": REASON, "score": 1}),
    "autorubric": json.dumps({"criterion_status": "MET", "explanation": REASON}),
}


def completion(text: str) -> bytes:
    """A chat completion."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
        "logprobs": None,
    }
    usage = {"prompt_tokens": 400, "completion_tokens": 40, "total_tokens": 440}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "judge",
        "choices": [choice],
    }
    return json.dumps({**body, "usage": usage}).encode()


BODIES = {form: completion(text) for form, text in FORMS.items()}


async def answer(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(body=BODIES[request.match_info["form"]], content_type="application/json")


async def serve() -> None:
    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/{form}/v1/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
