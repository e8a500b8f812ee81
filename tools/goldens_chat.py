#!/usr/bin/env python3
"""Goldens of chat templates, from transformers: what its apply_chat_template makes of conversations and templates.

Writes tests/golden/chat/rendered.json and language.json. The templates beside them are the project's own; each uses what templates of
that family use. `goldens_chat.py DIR` compares instead: every DIR/*.jinja with conversations and options, against `render`, a program
that reads {"template", "vars"} lines and writes {"text", "spans"} or {"error"} (the target render_chat).
Environment: tools/goldens_setup; torch is not needed.
"""
import datetime
import glob
import json
import os
import subprocess
import sys

from transformers import AutoTokenizer
from transformers.utils import chat_template_utils

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FOLDER = os.path.join(ROOT, "tests/golden/chat")
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


class Day(datetime.datetime):
    """The date that texts to train on have, whatever the day."""

    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26, tzinfo=tz)


chat_template_utils.datetime = Day


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


CALL = {"type": "function", "function": {"name": "f", "arguments": {"a": 1, "b": [True, None, "é<>'\""], "c": 0.5}}}
CONVERSATIONS = [
    [user("Hi")],
    [user("Hi"), assistant("Hello!")],
    [system("Be brief."), user("Hi"), assistant("Hello!")],
    [user("a"), assistant("b"), user("c"), assistant("d")],
    [system("s"), user("a\nb"), assistant("  blanks around  "), user("é'\"<x>"), assistant("日本語 🙂\n\n")],
    [assistant("I begin.")],
    [user("twice"), user("twice")],
    [user(""), assistant("")],
    [user("z"), assistant("<think>hm\n</think>\n\nanswer"), user("more"), assistant("<think>\nq\n</think>r")],
    [user([{"type": "text", "text": "part one "}, {"type": "text", "text": " two"}]), assistant("ok")],
    [user("x"), assistant(None, tool_calls=[CALL]), {"role": "tool", "name": "f", "content": "42"}, assistant("done")],
    [user("x"), assistant("because", reasoning_content="why"), user("ok"), assistant("fine")],
]
TOOL = {"type": "function", "function": {"name": "f", "description": "does f", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]}}, "required": ["a"]}}}
OPTIONS = [{}, {"add_generation_prompt": True}, {"tools": [TOOL]}, {"enable_thinking": False, "add_generation_prompt": True}]

# Statements and expressions one by one: a template and its variables.
LANGUAGE = [
    ("{{ 2**3**2 }} {{ -2**2 }} {{ 7//2 }} {{ -7//2 }} {{ -7%3 }} {{7/2}} {{ 1.0 }} {{ 1e20 }} {{ 1e-5 }} {{ 100.0 }} {{ 0.1 + 0.2 }} {{ 1_000 }}", {}),
    ("{{ [1,'a',None,True,1.5,{'a':'b\\'c'}] }} {{ (1,) }} {{ (1,2) }} {{ () }} {{ [\"it's\", 'a\"b', 'é\\n\\t'] }}", {}),
    ("{{ 'a' 'b' ~ 1 ~ none }}", {}), ("{{ x }}|{{ x is defined }}|{{ m.y is defined }}", {"m": {}}), ("{{ x.y }}", {}), ("{{ m.y.z }}", {"m": {}}),
    ("{{ x + 'a' }}", {}), ("{{ x == y }} {{ x in [1] }} {{ 1 in x }}", {}), ("{% for a in x %}{{a}}{% else %}none{% endfor %}", {}),
    ("{{ 'aéc'[1] }}{{ 'abc'[-2:] }}{{ 'aéc'[::-1] }}{{ 'abc'[5] is defined }}{{ [1,2,3][1:] }}{{ [1,2,3,4][-3:-1] }}{{ [1,2,3,4][3:0:-2] }}", {}),
    ("{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 if false }}|{{ 'a' < 'b' }}", {}), ("{{ 'a' < 1 }}", {}),
    ("{{ 'x' * 3 }}{{ [1]*2 }}{{ 3 * 'ab'}} {{ 'a%sb%d' % ('c', 4) }}", {}),
    ("{{ true + 1 }} {{ not x }} {{ 'a' is in 'abc' }} {{ 'A' is upper }} {{ 1 is sameas 1 }} {{ 1 is sameas true }}", {}),
    ("{% set x = 1 %}{% for i in [1,2] %}{{ x }}{% set x = x + 1 %}{{x}}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}", {}),
    ("{% set a, b = 1, 2 %}{{ a }}{{ b }}{% for k, v in {'p': 1}.items() %}{{k}}{{v}}{% endfor %}{{ {'a':1}|items|list }}", {}),
    ("{% set a, b = [1] %}", {}), ("{% macro f(a, b='x') %}{{ a }}-{{ b }}{% endmacro %}{{ f(1) }}{{ f(b=2, a=3) }}{{ f() }}", {}),
    ("{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", {}),
    ("{{ {'a':[1,2.5,'é\"<'],'b':none}|tojson }}|{{ {'a':[1],'b':{},'c':[]}|tojson(indent=2) }}|{{ {'b':1,'a':'é🙂'}|tojson(sort_keys=true, ensure_ascii=true) }}", {}),
    ("{{ 'a b  c'.split() }}{{ 'a b  c'.split(' ') }}{{ 'a b c'.split(' ', 1) }}{{ ' a  b c '.split(none, 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'a\\r\\nb\\n'.splitlines() }}", {}),
    ("{{'abcabc'.find('c')}}{{ 'éabc'.rfind('c') }}{{ 'aXa'.count('a') }}{{ ' a '|trim }}{{ 'xxaxx'|trim('x') }}{{ 'xyaxy'.strip('xy') }}{{ ' a '.lstrip() }}|", {}),
    ("{{ [3,1,2]|sort }}{{ ['b','A','a']|sort }}{{ [1,2]|join('-') }}{{ 'abc'|list }}{{ 'abc'|first }}{{ []|first is defined }}{{ 'hello world-wide'|title }}{{ 'HELLO'|capitalize }}", {}),
    ("{{ [{'a':1},{'a':2},{}]|map(attribute='a')|list }}{{ [{'a':1},{'a':0}]|selectattr('a')|list }}{{ [{'a':1},{'a':2}]|rejectattr('a','equalto',2)|list }}", {}),
    ("{{ ['a','B']|map('upper')|join }}{{ [1,2,3,4]|select('odd')|list }}{{ [1,none]|reject('none')|list }}{{ [{'a':{'b':1}}]|map(attribute='a.b')|list }}", {}),
    ("{{ 'a\nb'|indent(2) }}|{{ 'a\n\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(1, blank=true) }}", {}),
    ("{% set ns = namespace(a=1, b='x') %}{% set ns.a = ns.a + 1 %}{{ ns.a }}{{ ns.c is defined }}{{ ns }}", {}), ("{% set m.a = 1 %}", {"m": {}}),
    ("{% for i in range(5) if i is odd %}{{ loop.index }}{{ loop.last }}{{loop.length}}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.revindex }}{% endfor %}", {}),
    ("{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}{{ i }}", {}),
    ("{% for i in range(2) %}{% for k in range(2) %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}{{ range(5, 1, -2)|list }}", {}),
    ("{{ 5|string + 'a' }}{{ '5'|int + 1 }}{{ 'x'|int }}{{ 'x'|int(7) }}{{ 2.7|round }}{{ 2.5|round(0,'floor')|int }}{{ '3.5'|float }}{{ -3|abs }}{{ 3.14159|round(2) }}", {}),
    ("{{ true|abs }}{{ false|abs }} {{ true|abs is boolean }} {{ true|round }} {{ -9007199254740993|abs }}", {}),
    ("{{ 9007199254740993|round }} {{ 9223372036854775807|round }} {{ 15|round(-1) }} {{ 25|round(-1) }} {{ -25|round(-1) }} {{ -26|round(-1) }} {{ 9007199254740993|round(-1) }} {{ 7|round(2) }} {{ 7|round(0, 'ceil') }}", {}),
    ("{{ '9007199254740993'|int }} {{ ' -9223372036854775808 '|int }} {{ '+9223372036854775807'|int }} {{ '42.9'|int }} {{ 5e18|int }} {{ 'inf'|int(3) }}", {}),
    ("{{ 1.25|round(1, 'half') }}", {}),
    ("{{ dict(a=1) }}{{ 'a'.b is defined }}{{ none.b is defined }}|", {}), ("{{ none|length }}", {}), ("{{ x|length }}{{ 'é🙂'|length }}{{ {'a':1}|length }}", {}),
    ("{{ x|trim }}|{{ none|trim }}|{{ x|default('d') }}|{{ ''|default('d', true) }}|{{ none|default('d') }}", {}),
    ("{{ x['a'] is defined }}", {}), ("{{ [1][3] is defined }}{{ [1][3] }}|{{ {'items': 3}['items'] }}{{ {1:2}[1] }}", {}),
    ("{{ 'a'.join(['x','y']) }}{{ 'abc'.startswith(('a','b')) }}{{ 'a,b'.replace(',', ';') }}{{ 'aaa'.replace('a', 'b', 2) }}{{ 'ab'.replace('', '-') }}", {}),
    ("{{ 'a' ~ x ~ [1] }}{{ 1 == 1.0 }}{{ true == 1 }}{{ '1' == 1 }}{{ [1] == [1] }}{{ {'a':1} == {'a':1.0} }}{{ (1,) == [1] }}", {}),
    ("  {% if true %}\n  a\n  {% endif %}\n b {{ 1 }}\n{# c #}\n d\n", {}), ("a  {%- if true %} b {%+ if true %} c {% endif -%}  d {% endif +%}\n e", {}),
    ("x\n   {{- 'a' -}}   \n y\n\n", {}), ("\n\n  {#- c -#}  \n x {{ 1 }}  {% if 1 %}  \n  {% endif %}", {}), ("{% set x %}a{{1}}{% endset %}{{ x }}{% set y | upper %}b{% endset %}{{ y }}", {}),
    ("{{ [1,2,3]|last }} {{ {'b':1,'a':2}|dictsort }} {{ [1,[2]]|string }} {{ 'x' is string }} {{ {} is mapping }} {{ 'x' is iterable }} {{ {} is sequence}} {{ true is number }} {{ true is integer }}", {}),
    ("{{ ''.join([1]) }}", {}), ("{{ 1/0 }}", {}), ("{{ {'a':1}.a.b }}", {}), ("{% if x.y %}{% endif %}", {}),
    ("{{ 'it''s' }}{{ \"a\\u00e9\\n\\x41\\101\\q\\\\\" }}", {}), ("{{ [1,2,1]|unique|list }}{{ [1,2]|reverse|list }}{{ 'aéb'|reverse }}{{ [1,2]|sum }}{{ [3,1]|min }}{{ ['a','b']|max }}", {}),
    ("{{ 'a\r\nb' }}{{ q }}\r\nx", {"q": "p\r\nq"}), ("{{ 'é'|upper }}{{ 'ÀB'.lower() }}{{ 'a-b'.upper() }}", {}),
    ("{{ 1 if x is defined and x.a else 2 }} {{ 'a' in {'a':1} }} {{ not 'a' in 'b' }} {{ 'a' not in 'b' }} {{ 3 is divisibleby 3 }} {{ 3 is not none }}", {}),
    ("{% set m = [1,2] + [3] %}{{ m }} {{ m[-1] }} {{ m[:-1] }} {{ m|length - 1 }} {{ m.index(2) }} {{ m.count(9) }}", {}),
    ("{% if %}", {}), ("{{ a b }}", {}), ("{% endif %}", {}), ("{{ 'a'", {}), ("{% for x in y %}", {}), ("{{ 'abc }}", {}), ("{# no end", {}), ("{{ }}", {}), ("{{ 1 + }}", {}),
    ("{% set x = {'a': 1} %}{% for k in x %}{{ k }}{{ x[k] }}{% endfor %}{{ x.get('b', 5) }}{{ x.get('c') }}{{ x.keys()|list }}{{ x.values()|list }}", {}),
    ("{{ {'a': {'b': [1, {'c': 'deep'}]}}.a.b[1].c }}{{ {'a': 1,} }}{{ [1, 2,] }}{{ ({'x': {}}) }}", {}), ("{% break %}", {}),
    ("{{ '<b>'|e }}{{ 'x'|safe }}{{ 'removeprefix'.removeprefix('remove') }}{{ 'a.b'.removesuffix('.b') }}{{ '12'.isdigit() }}{{ ' '.isspace() }}", {}),
    ("{{ [{'a':1,'b':1},{'a':0,'b':2},{'a':1,'b':3},{'a':0,'b':4}]|sort(attribute='a', reverse=true)|map(attribute='b')|list }}", {}),
    ("{{ ['b','B','a','A','b']|sort }}{{ ['b','B','a','A']|sort(reverse=true) }}{{ [2,1,3]|sort(reverse=true) }}", {}),
    ("{{ (1,2,3)[1:] }}{{ (1,2,3)[::-1] }}{{ (1,2)[5:] }}{{ [(1,2)][0][:1] }}", {}), ("{{ 'a' not foo 'b' }}", {}),
    ("{{ 0.1000000000000000055511151231257827021181583404541015625 }} {{ 123456789012345678 }} {{ 1234567890123456789.5 }} {{ 1_2.5_0e+1_0 }} {{ 123456789012345678901234567890123456789012345678.0 }}", {}),
    ("{{ raise_exception('no') }}", {}), ("{{ strftime_now('%Y-%m-%d %H:%M %B') }}", {}), ("{{ 'ab'|list|join(',') if 'ab' else 'none' }}{{ (1 if true else 2) + 1 }}", {}),
]


def render(template, variables):
    compiled = chat_template_utils._compile_jinja_template(template)
    blocks, indices = [], []
    with compiled.environment.activate_tracker(blocks, indices):
        for part in compiled.generate(**variables):
            blocks.append(part)
    text = "".join(blocks)
    return text, [[len(text[:a].encode()), len(text[:b].encode())] for a, b in indices]


def outcome(template, variables):
    try:
        text, spans = render(template, variables)
    except Exception:
        return {"refused": True}
    return {"text": text, "spans": spans}


def variables_of(messages, options):
    return {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": False, **TOKENS, **options}


def masked(tokenizer, template, messages):
    """ids and answers as transformers has them, where the template marks answers."""
    try:
        made = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    except Exception:
        return {}
    return {"ids": made["input_ids"], "answers": made["assistant_masks"]}


def make():
    tokenizer = AutoTokenizer.from_pretrained(os.path.join(ROOT, "tests/golden/tokenizer/smollm"))
    cases = []
    for path in sorted(glob.glob(f"{FOLDER}/*.jinja")):
        template, name = open(path).read(), os.path.basename(path)[:-6]
        for messages in CONVERSATIONS:
            plain = outcome(template, variables_of(messages, {}))
            for options in OPTIONS:
                case = {"template": name, "vars": variables_of(messages, options), **outcome(template, variables_of(messages, options))}
                if options and (case.get("refused") or case.get("text") == plain.get("text")):
                    continue        # the option changes nothing
                if not options and "generation %}" in template:
                    case.update(masked(tokenizer, template, messages))
                cases.append(case)
    language = [{"template": t, "vars": v, **outcome(t, v)} for t, v in LANGUAGE]
    for name, made in ("rendered", cases), ("language", language):
        with open(f"{FOLDER}/{name}.json", "w") as f:
            f.write("[" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in made) + "]\n")
    print(f"{len(cases)} conversations, {len(language)} pieces of the language")


def compare(folder, program):
    jobs = [(path, open(path).read(), variables_of(m, o)) for path in sorted(glob.glob(f"{folder}/*.jinja")) for m in CONVERSATIONS for o in OPTIONS]
    lines = "".join(json.dumps({"template": t, "vars": v}) + "\n" for _, t, v in jobs)
    got = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    same = refused = 0
    for (path, template, variables), line in zip(jobs, got):
        want, have = outcome(template, variables), json.loads(line)
        if "refused" in want and "error" in have:
            refused += 1
        elif "refused" in want or have != want:
            print(f"{path}: {json.dumps(variables['messages'])}: {have} where transformers has {want}")
        else:
            same += 1
    print(f"{len(jobs)} of {len(set(j[0] for j in jobs))} templates: {same} the same, {refused} refused by both")
    return same + refused != len(jobs)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        make()
    elif len(sys.argv) == 3:
        sys.exit(compare(sys.argv[1], sys.argv[2]))
    else:
        sys.exit("usage: goldens_chat.py [DIR PROGRAM]")
