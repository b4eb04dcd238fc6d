"""What an application does with OpenAI's own Python client, against a fleet.

OPENAI_BASE_URL and OPENAI_API_KEY say where and as whom; the argument is the model, and with "tool"
behind it the model is one that calls a tool. Ends with 1 and a trace at the first answer that is not as
OpenAI's service would give it.
"""

import json
import sys

import openai

client = openai.OpenAI(max_retries=0)
model = sys.argv[1]
hello = [{"role": "user", "content": "Hello"}]
weather = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a town",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    },
}


def models():
    assert [m.id for m in client.models.list()] == [model], client.models.list()


def whole():
    got = client.chat.completions.create(model=model, messages=hello, max_tokens=12, seed=1)
    assert got.object == "chat.completion" and got.model == model, got
    choice = got.choices[0]
    assert choice.message.role == "assistant" and choice.message.content, choice
    assert choice.finish_reason == "length", choice
    assert got.usage.completion_tokens == 12, got.usage
    assert got.usage.total_tokens == got.usage.prompt_tokens + 12, got.usage


def stream():
    text, finish, usage, roles = "", None, None, []
    for chunk in client.chat.completions.create(
        model=model, messages=hello, max_tokens=12, stream=True, stream_options={"include_usage": True}
    ):
        assert chunk.object == "chat.completion.chunk", chunk
        if not chunk.choices:
            usage = chunk.usage
            continue
        delta = chunk.choices[0].delta
        roles += [delta.role] if delta.role else []
        text += delta.content or ""
        finish = chunk.choices[0].finish_reason or finish
    assert text and finish == "length" and roles == ["assistant"], (text, finish, roles)
    assert usage and usage.completion_tokens == 12, usage


def stream_without_usage():
    chunks = list(client.chat.completions.create(model=model, messages=hello, max_tokens=3, stream=True))
    assert all(c.choices for c in chunks) and all(c.usage is None for c in chunks), chunks


def logprobs():
    got = client.chat.completions.create(model=model, messages=hello, max_tokens=3, logprobs=True, top_logprobs=2)
    content = got.choices[0].logprobs.content
    assert len(content) == 3 and len(content[0].top_logprobs) == 2 and content[0].logprob <= 0, content


def json_schema():
    schema = {"type": "object", "properties": {"sunny": {"type": "boolean"}}, "required": ["sunny"], "additionalProperties": False}
    got = client.chat.completions.create(
        model=model, messages=hello, max_tokens=200,
        response_format={"type": "json_schema", "json_schema": {"name": "weather", "strict": True, "schema": schema}},
    )
    assert isinstance(json.loads(got.choices[0].message.content)["sunny"], bool), got


def tools_offered():
    got = client.chat.completions.create(model=model, messages=hello, max_tokens=8, tools=[weather], tool_choice="none")
    assert got.choices[0].message.tool_calls is None, got


def refused(error, param, code=None, **kwargs):
    asked = {"model": model, "messages": hello, "max_tokens": 3} | kwargs
    try:
        client.chat.completions.create(**asked)
    except error as e:
        assert isinstance(e.body, dict) and e.body["message"] and e.body["type"] == "invalid_request_error", e.body
        assert e.param == param, (e.param, param)
        assert code is None or e.code == code, e.code
        return
    raise AssertionError(f"{kwargs} was not refused")


def refusals():
    bad = openai.BadRequestError
    refused(openai.NotFoundError, "model", "model_not_found", model="no-such-model")
    refused(bad, "temperature", temperature=9)
    refused(bad, "max_tokens", max_tokens=0)
    refused(bad, "n", n=2)
    refused(bad, "messages", messages=[])
    refused(bad, "messages", messages=[{"role": "wizard", "content": "x"}])
    refused(bad, "tools", tools=[{"type": "function"}])
    refused(bad, "response_format", response_format={"type": "xml"})
    refused(bad, "top_logprobs", top_logprobs=2)
    refused(bad, "stream_options", stream_options={"include_usage": True})
    refused(bad, "wings", extra_body={"wings": 2})
    refused(bad, "messages", messages=[{"role": "user", "content": "word " * 5000}])


def wrong_key():
    try:
        openai.OpenAI(api_key="il_wrong", max_retries=0).models.list()
    except openai.AuthenticationError as e:
        assert e.code == "invalid_api_key" and e.type == "invalid_request_error", e.body
        return
    raise AssertionError("a wrong key was accepted")


def tool_call():
    asked = {"model": model, "messages": hello, "tools": [weather]}
    got = client.chat.completions.create(**asked).choices[0]
    assert got.finish_reason == "tool_calls", got
    call = got.message.tool_calls[0]
    assert call.type == "function" and call.id and call.function.name == "weather", call
    assert json.loads(call.function.arguments) == {"town": "Ulm"}, call
    name, arguments, finish = "", "", None
    for chunk in client.chat.completions.create(stream=True, **asked):
        for part in chunk.choices[0].delta.tool_calls or []:
            name += part.function.name or ""
            arguments += part.function.arguments or ""
        finish = chunk.choices[0].finish_reason or finish
    assert (name, json.loads(arguments), finish) == ("weather", {"town": "Ulm"}, "tool_calls"), (name, arguments, finish)
    # The answer of the tool goes back in, as an application would send it.
    followed = hello + [
        {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
        {"role": "tool", "tool_call_id": call.id, "content": "rain"},
    ]
    said = client.chat.completions.create(model=model, messages=followed)
    assert said.choices[0].message.content, said


if sys.argv[2:] == ["tool"]:
    checks = [tool_call]
else:
    checks = [models, whole, stream, stream_without_usage, logprobs, json_schema, tools_offered, refusals, wrong_key]
for check in checks:
    check()
    print("ok", check.__name__, flush=True)
