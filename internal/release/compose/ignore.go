package compose

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

type ignoreList struct {
	list       []ignored // in order
	exceptions bool
}

type ignored struct {
	match  *regexp.Regexp
	except bool
}

const maxIgnored = 1_000

// parseIgnore reads the form that the docker command documents: one pattern a
// line, # begins a comment, ! takes back, * stays within a folder, ** does not.
func parseIgnore(data []byte) (*ignoreList, error) {
	out := &ignoreList{}
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		text := strings.TrimSpace(line)
		except := strings.HasPrefix(text, "!")
		if text = strings.TrimSpace(strings.TrimPrefix(text, "!")); text == "" {
			continue
		}
		text = strings.TrimPrefix(path.Clean(text), "/")
		if text == "" || text == "." {
			continue
		}
		re, err := asRegexp(text)
		if err != nil {
			return nil, fmt.Errorf("pattern %q is not understood: %w", line, err)
		}
		if out.list = append(out.list, ignored{re, except}); len(out.list) > maxIgnored {
			return nil, fmt.Errorf("more than %d patterns", maxIgnored)
		}
		out.exceptions = out.exceptions || except
	}
	return out, nil
}

// asRegexp matches the path itself and all below it.
func asRegexp(p string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString("^")
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '*':
			if i+1 < len(p) && p[i+1] == '*' {
				i++
				if i+1 < len(p) && p[i+1] == '/' {
					i++
					b.WriteString("(.*/)?")
				} else {
					b.WriteString(".*")
				}
				continue
			}
			b.WriteString("[^/]*")
		case '?':
			b.WriteString("[^/]")
		case '[':
			end := strings.IndexByte(p[i:], ']')
			if end < 0 {
				return nil, fmt.Errorf("a [ without ]")
			}
			b.WriteString(p[i : i+end+1])
			i += end
		case '\\':
			if i++; i < len(p) {
				b.WriteString(regexp.QuoteMeta(p[i : i+1]))
			}
		default:
			b.WriteString(regexp.QuoteMeta(p[i : i+1]))
		}
	}
	b.WriteString("(/.*)?$")
	return regexp.Compile(b.String())
}

// matches reports whether the list leaves a path out: the last pattern that fits
// decides.
func (l *ignoreList) matches(name string) bool {
	out := false
	for _, p := range l.list {
		if out == p.except && p.match.MatchString(name) {
			out = !p.except
		}
	}
	return out
}
