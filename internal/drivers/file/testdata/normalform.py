# Reads documents of YAML from stdin, each after a line with its length, and writes each in the normal
# form as a line of JSON: PyYAML's parser, and the core schema of YAML 1.2.
import json, re, sys, yaml

INT = re.compile(r'[-+]?[0-9]+$')
BASE = re.compile(r'0(o[0-7]+|x[0-9a-fA-F]+)$')
FLOAT = re.compile(r'[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$')
INF = re.compile(r'[-+]?\.(inf|Inf|INF)$')
CORE = ('null', 'bool', 'int', 'float')



def core(s):
    if s in ('', '~', 'null', 'Null', 'NULL'):
        return 'null', None
    if s in ('true', 'True', 'TRUE', 'false', 'False', 'FALSE'):
        return 'bool', s.lower() == 'true'
    if INT.match(s):
        return 'int', int(s)
    if BASE.match(s):
        return 'int', int(s[2:], 8 if s[1] == 'o' else 16)
    if FLOAT.match(s):
        return 'float', float(s)
    if INF.match(s):
        return 'float', {'!float': '-inf' if s[0] == '-' else 'inf'}
    if s in ('.nan', '.NaN', '.NAN'):
        return 'float', {'!float': 'nan'}
    return 'str', s


def named(tag, standard):
    if tag is None or tag == '!':
        return None
    short = '!!' + tag[18:] if tag.startswith('tag:yaml.org,2002:') else tag
    if short in standard:
        return None
    if short in ('!map', '!float') or not short.startswith('!'):
        return '!<' + short + '>'
    return short


def key(n):
    # the name of a key, which has its kind where it is no text, or a text of digits
    kind, v = ('str', n.value) if n.style or n.tag in ('!', 'tag:yaml.org,2002:str') else core(n.value)
    if kind == 'int':
        return str(v)
    if kind == 'str':
        return '!str ' + v if re.fullmatch('0|-?[1-9][0-9]*|!(str|null|bool|int|float) .*', v, re.S) else v
    return '!' + kind + ' ' + (v['!float'] if isinstance(v, dict) else json.dumps(v))


class Reader:
    def __init__(self, text):
        self.events = iter(list(yaml.parse(text, Loader=getattr(yaml, 'CSafeLoader', yaml.SafeLoader))))
        self.anchors = {}

    def document(self):
        out = None
        for e in self.events:
            if isinstance(e, yaml.DocumentStartEvent):
                if out is not None:
                    raise ValueError('more than one document')
                out = [self.value(next(self.events))[0]]
        return out[0] if out else None

    def value(self, e):
        # returns the value, and whether it is a merge key
        if isinstance(e, yaml.AliasEvent):
            return self.anchors[e.anchor], False
        merge = False
        if isinstance(e, yaml.ScalarEvent):
            plain, v = core(e.value)
            quoted = bool(e.style)
            explicit = e.tag is not None
            name = named(e.tag, ['!!str', '!!' + plain] if plain in CORE else ['!!str'])
            if e.tag in ('!', 'tag:yaml.org,2002:str') or quoted and not (explicit and name is None):
                v = e.value
            merge = e.value == '<<' and not quoted and not explicit
        elif isinstance(e, yaml.SequenceStartEvent):
            name, v = named(e.tag, ['!!seq']), []
            while not isinstance(n := next(self.events), yaml.SequenceEndEvent):
                v.append(self.value(n)[0])
        else:
            name, v, under = named(e.tag, ['!!map']), {}, []
            while not isinstance(n := next(self.events), yaml.MappingEndEvent):
                if not isinstance(n, (yaml.ScalarEvent, yaml.AliasEvent)):
                    raise ValueError('a key that is no scalar')
                k, merge = (key(n), False) if isinstance(n, yaml.ScalarEvent) else (self.anchors[n.anchor], False)
                if isinstance(n, yaml.ScalarEvent):
                    merge = n.value == '<<' and not n.style and n.tag is None
                    if n.anchor:
                        self.anchors[n.anchor] = k
                x = self.value(next(self.events))[0]
                if merge:
                    under += x if isinstance(x, list) else [x]
                    continue
                if k in v:
                    raise ValueError('a key stands twice')
                v[k] = x
            for m in under:
                if not isinstance(m, dict):
                    raise ValueError('a merge of no map')
                for k in m:
                    v.setdefault(k, m[k])
            if len(v) == 1 and re.match('![^ ]*$', next(iter(v))):
                v = {'!map': v}
        if name:
            v = {name: v}
        if getattr(e, 'anchor', None):
            self.anchors[e.anchor] = v
        return v, False


sys.set_int_max_str_digits(0)
while line := sys.stdin.buffer.readline():
    raw = sys.stdin.buffer.read(int(line)).decode('utf-8', 'replace').lstrip('\ufeff')
    try:
        out = {'value': Reader(re.sub(r'\A(?:#.*\n|\s*\n)*%YAML', lambda m: m.group(0)[:-5] + '#YAML', raw)).document()}
    except Exception as e:
        out = {'error': str(e) or repr(e)}
    sys.stdout.write(json.dumps(out, ensure_ascii=True) + '\n')
    sys.stdout.flush()
