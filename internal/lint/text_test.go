package lint

import (
	"bytes"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// openEnd is put together so that this file does not break its own rule.
var openEnd = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// Text checks the words of one tracked file. Binary files and checksums pass.
func Text(name string, src []byte) []Finding {
	base := path.Base(name)
	if bytes.IndexByte(src, 0) >= 0 || base == "go.sum" || base == "package-lock.json" {
		return nil
	}
	var out []Finding
	for i, line := range strings.Split(string(src), "\n") {
		if hit := openEnd.FindString(line); hit != "" {
			out = append(out, Finding{File: name, Line: i + 1,
				Text: fmt.Sprintf("%q is an open end: finish it, or refuse the case with an error that says so", hit)})
		}
	}
	return out
}

var (
	mdLink  = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)|^\[[^\]]+\]:\s+(\S+)`)
	mdCode  = regexp.MustCompile("`[^`]*`")
	mdFence = regexp.MustCompile("^\\s*(```|~~~)")
)

// Links checks that each internal link of a Markdown file leads to a file or
// folder of the tree; exists answers for a path relative to the root.
func Links(name string, src []byte, exists func(string) bool) []Finding {
	var out []Finding
	fenced := false
	for i, line := range strings.Split(string(src), "\n") {
		if mdFence.MatchString(line) {
			fenced = !fenced
		}
		if fenced {
			continue
		}
		for _, m := range mdLink.FindAllStringSubmatch(mdCode.ReplaceAllString(line, ""), -1) {
			target := m[1] + m[2]
			file, internal := linkedFile(name, target)
			if internal && !exists(file) {
				out = append(out, Finding{File: name, Line: i + 1, Text: fmt.Sprintf(
					"links to %s, and there is no %s: correct the path or write the page", target, file)})
			}
		}
	}
	return out
}

// linkedFile resolves a link of the page to a path below the root; false if it
// leads elsewhere or within the page.
func linkedFile(page, target string) (string, bool) {
	u, err := url.Parse(target)
	if err != nil {
		return target, true
	}
	if u.Scheme != "" || u.Host != "" || u.Path == "" {
		return "", false
	}
	if strings.HasPrefix(u.Path, "/") {
		return strings.TrimPrefix(path.Clean(u.Path), "/"), true
	}
	return path.Join(path.Dir(page), u.Path), true
}

var (
	mdSpan   = regexp.MustCompile("`([^`\n]+)`")
	coreName = regexp.MustCompile(`\b([a-z]+)\.([A-Z][A-Za-z0-9]*)(?:\.([A-Z][A-Za-z0-9]*))?`)
)

// Names checks that the names of the core in code spans of a Markdown file,
// such as event.Granted or host.Agent.Step, are declared. Declared answers
// whether the name is one of the package, and whether it has that member, which
// may be empty; known is false for a package outside the core.
func Names(name string, src []byte, declared func(pkg, name, member string) (known, ok bool)) []Finding {
	var out []Finding
	for i, line := range strings.Split(string(src), "\n") {
		for _, span := range mdSpan.FindAllStringSubmatch(line, -1) {
			for _, m := range coreName.FindAllStringSubmatch(span[1], -1) {
				if known, ok := declared(m[1], m[2], m[3]); known && !ok {
					out = append(out, Finding{File: name, Line: i + 1, Text: fmt.Sprintf(
						"names %s, which internal/core/%s does not declare: correct the name", m[0], m[1])})
				}
			}
		}
	}
	return out
}
