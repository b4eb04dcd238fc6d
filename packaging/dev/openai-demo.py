"""Asks a model through the OpenAI-compatible endpoint, with OpenAI's own client as it comes from PyPI.

The client reads OPENAI_BASE_URL and OPENAI_API_KEY by itself. The answer goes to standard output as it
comes; one line of figures goes to standard error. Usage: openai-demo.py MODEL PROMPT MAX_TOKENS
"""

import sys
import time

from openai import OpenAI


def main(model: str, prompt: str, max_tokens: int) -> None:
    client = OpenAI()
    served = [m.id for m in client.models.list()]
    if model not in served:
        sys.exit(f"/v1/models lists {served}, not {model}")
    began, first = time.monotonic(), None
    stream = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": prompt}],
        max_tokens=max_tokens,
        stream=True,
        stream_options={"include_usage": True},
    )
    usage, finish = None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            if choice.delta.content:
                first = first or time.monotonic() - began
                sys.stdout.write(choice.delta.content)
                sys.stdout.flush()
    if usage is None or finish is None or first is None:
        sys.exit("the stream ended without a text, a finish reason or the usage that was asked for")
    counts = f"{usage.total_tokens} tokens ({usage.prompt_tokens} prompt, {usage.completion_tokens} answer)"
    print(f"{counts} · first word after {first:.1f} s · finish reason {finish}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
