// Package imageref reads references to images, says what a pattern takes in, and which
// images a Dockerfile is built on.
package imageref

import (
	"fmt"
	"strings"
)

// Ref is a reference to an image in its full form.
type Ref struct {
	Domain string // such as docker.io
	Path   string // such as library/nginx
	Tag    string
	Digest string
}

func (r Ref) String() string {
	s := r.Domain + "/" + r.Path
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}

const defaultRegistry = "docker.io"

// Parse reads a reference the way engines do: without a registry it is of
// docker.io, without a folder of library. It refuses what an engine would take
// for an image's ID, because an ID names any image that happens to be there.
func Parse(s string) (Ref, error) {
	bad := func(why string) (Ref, error) {
		return Ref{}, fmt.Errorf("reference %q %s: expected one such as registry.example/team/app:1", s, why)
	}
	if s == "" || len(s) > 512 {
		return bad("is empty or longer than 512 bytes")
	}
	rest, digest, pinned := strings.Cut(s, "@")
	if pinned && !validDigest(digest) {
		return bad("has no sha256 digest after @")
	}
	r := Ref{Digest: digest}
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.Contains(rest[i:], "/") {
		rest, r.Tag = rest[:i], rest[i+1:]
		if !validTag(r.Tag) {
			return bad("has a tag that is not 1 to 128 of A-Z a-z 0-9 _ . -")
		}
	}
	first, more, deep := strings.Cut(rest, "/")
	if deep && (strings.ContainsAny(first, ".:") || first == "localhost") {
		r.Domain, r.Path = strings.ToLower(first), more
	} else {
		r.Domain, r.Path = defaultRegistry, rest
	}
	if r.Domain == "index.docker.io" {
		r.Domain = defaultRegistry
	}
	if !validDomain(r.Domain) {
		return bad("names no registry")
	}
	for part := range strings.SplitSeq(r.Path, "/") {
		if !validPart(part) {
			return bad("has a path that is not of a-z 0-9 . _ - and /")
		}
	}
	if r.Domain == defaultRegistry && !strings.Contains(r.Path, "/") {
		if r.Tag == "" && r.Digest == "" && strings.Trim(r.Path, "0123456789abcdef") == "" {
			return bad("looks like an image ID")
		}
		if (r.Path == "sha256" || r.Path == "sha512") && len(r.Tag) >= 32 {
			return bad("is an image ID")
		}
		r.Path = "library/" + r.Path
	}
	return r, nil
}

// Within reports whether the reference is of a registry, of a folder of one, of an
// image with all its tags, or the one tag or digest that is named. Both are
// compared in full form and at the bounds of path parts.
func (r Ref) Within(allowed string) bool {
	allowed = strings.TrimSuffix(allowed, "/")
	if host, port, has := strings.Cut(allowed, ":"); !strings.Contains(allowed, "/") && (strings.Contains(host, ".") || host == "localhost") && (!has || validPort(port)) {
		if host == "index.docker.io" {
			allowed = defaultRegistry
		}
		return r.Domain == strings.ToLower(allowed)
	}
	a, err := Parse(allowed)
	if err != nil {
		// A folder may look like an image ID; with a tag it does not.
		if a, err = Parse(allowed + ":x"); err != nil {
			return false
		}
		a.Tag = ""
	}
	if a.Domain != r.Domain {
		return false
	}
	if a.Tag != "" || a.Digest != "" {
		return a.Path == r.Path && (a.Digest == "" || a.Digest == r.Digest) && (a.Tag == "" || a.Tag == r.Tag && (a.Digest != "" || r.Digest == ""))
	}
	if official, ok := strings.CutPrefix(a.Path, "library/"); ok && strings.HasSuffix(allowed, ".io/"+official) {
		// "nginx" is the official image, "docker.io/acme" the folder too.
		return below(r.Path, a.Path) || below(r.Path, official)
	}
	return below(r.Path, a.Path)
}

// below reports whether a path is the folder or below it.
func below(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

func validDigest(d string) bool {
	h, ok := strings.CutPrefix(d, "sha256:")
	return ok && len(h) == 64 && strings.Trim(h, "0123456789abcdef") == ""
}

func each(s string, ok func(b byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return s != ""
}

func lowerOrDigit(b byte) bool { return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' }

func validTag(t string) bool {
	return len(t) <= 128 && t != "" && t[0] != '.' && t[0] != '-' && each(t, func(b byte) bool {
		return lowerOrDigit(b) || b >= 'A' && b <= 'Z' || b == '_' || b == '.' || b == '-'
	})
}

// validPart follows the grammar of distribution references: letters and digits,
// with one dot, one or two underscores or any dashes between them.
func validPart(s string) bool {
	between := 0 // where the separator began that i is in
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			if sep := s[between:i]; sep != "" && sep != "." && sep != "_" && sep != "__" && strings.Trim(sep, "-") != "" {
				return false
			}
			between = i + 1
		case c != '.' && c != '_' && c != '-' || i == 0:
			return false
		}
	}
	return s != "" && between == len(s)
}

func validPort(p string) bool {
	return p != "" && len(p) <= 5 && strings.Trim(p, "0123456789") == ""
}

func validDomain(d string) bool {
	host, port, has := strings.Cut(d, ":")
	if has && !validPort(port) {
		return false
	}
	return host != "" && lowerOrDigit(host[0]) && lowerOrDigit(host[len(host)-1]) &&
		each(host, func(b byte) bool { return lowerOrDigit(b) || b == '.' || b == '-' })
}
