package router

import (
	"fmt"
	"net/url"
	"strings"
)

// routePath brings a prefix to its one form: "/" or /a/b without a last slash.
func routePath(p string) (string, error) {
	if p == "" {
		return "/", nil
	}
	if p[0] != '/' || len(p) > maxPath {
		return p, fmt.Errorf("%q is not a path: begin it with '/', with at most %d characters", p, maxPath)
	}
	for _, c := range []byte(p) {
		if !alphanumeric(c) && !strings.ContainsRune("/-._~!$&'()+,=:@", rune(c)) {
			return p, fmt.Errorf("%q has %q: write the prefix with letters, digits and -._~!$&'()+,=:@ only", p, c)
		}
	}
	clean, err := CleanPath(p)
	if err != nil {
		return p, err
	}
	if clean != "/" {
		clean = strings.TrimSuffix(clean, "/")
	}
	return clean, nil
}

// CleanPath returns the decoded path of a request as routes see it: repeated
// slashes are one. It refuses dot segments, plain or encoded: the workspace
// would resolve them after the route, and what guards it, was chosen.
func CleanPath(p string) (string, error) {
	if p == "" {
		return "/", nil
	}
	if p[0] != '/' {
		return "", fmt.Errorf("the path %q does not begin with '/'", p)
	}
	if !strings.Contains(p, "//") && !strings.Contains(p, "/.") && !strings.ContainsAny(p, "\\\x00") {
		return p, nil
	}
	if strings.ContainsAny(p, "\\\x00") {
		return "", fmt.Errorf("the path %q has a backslash or a zero byte", p)
	}
	var out strings.Builder
	for seg := range strings.SplitSeq(p, "/") {
		// Some servers drop ";parameters" before they resolve dots.
		if bare, _, _ := strings.Cut(seg, ";"); bare == "." || bare == ".." {
			return "", fmt.Errorf("the path %q has the segment %q: send it resolved", p, seg)
		}
		if seg != "" {
			out.WriteByte('/')
			out.WriteString(seg)
		}
	}
	if strings.HasSuffix(p, "/") {
		out.WriteByte('/')
	}
	return out.String(), nil
}

// Strip takes the route's path off an escaped request path that Match gave to
// it. What is left begins with exactly one slash, still escaped.
func (r *Route) Strip(escaped string) (string, error) {
	rest := escaped
	if r.Path != "/" {
		for left := strings.Count(r.Path, "/"); left > 0; {
			rest = strings.TrimLeft(rest, "/")
			seg, tail, _ := strings.Cut(rest, "/")
			plain, err := url.PathUnescape(seg)
			if err != nil {
				return "", fmt.Errorf("the path %q is not escaped correctly: %w", escaped, err)
			}
			for part := range strings.SplitSeq(plain, "/") {
				if part != "" {
					left--
				}
			}
			if left < 0 || seg == "" {
				return "", fmt.Errorf("the path %q hides the end of %s in an escaped slash: send it plain", escaped, r.Path)
			}
			rest = tail
		}
	}
	return "/" + strings.TrimLeft(rest, "/"), nil
}
