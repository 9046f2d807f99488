package spec

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// build checks the base images of a build. Where the allowlist does not take
// everything, they have to be readable: the Dockerfile is inline, and plain.
func (b *Bounds) build(c Checker, build *Build) {
	b.buildLimits(c, build)
	for _, k := range slices.Sorted(maps.Keys(build.Args)) {
		if strings.HasPrefix(strings.ToUpper(k), "BUILDKIT_") {
			c.In("args", k).Addf("argument %q chooses another builder: expected none of BuildKit's own", k)
		}
	}
	if foreignSyntax(build.Inline) {
		c.In("inline").Addf("a syntax directive runs an image as the builder: expected a plain Dockerfile")
		return
	}
	if slices.Contains(b.Images, "*") {
		return
	}
	if build.Context != nil && build.Inline == "" {
		c.In("context").Addf("the base images of a build context are unknown: expected an inline Dockerfile, or any image allowed")
		return
	}
	if len(build.Bases) > 0 {
		c.In("bases").Addf("digests that a release gives to base images: expected them in the Dockerfile")
	}
	ci := c.In("inline")
	lines, why := instructions(build.Inline)
	if why != "" {
		ci.Addf("%s: expected a plain Dockerfile, or any image allowed", why)
		return
	}
	stages := map[string]bool{}
	known := func(ref string) bool { return ref == "scratch" || stages[strings.ToLower(ref)] || b.Allows(ref) }
	count := 0
	for _, line := range lines {
		words := strings.Fields(line)
		name := strings.ToUpper(words[0])
		if name == "ONBUILD" {
			ci.Addf("ONBUILD hides what a later build does: expected none")
			continue
		}
		for _, ref := range from(words[1:]) {
			if !known(ref) {
				ci.Addf("%s copies from image %q, which is not allowed here: expected one of %q", name, ref, b.Images)
			}
		}
		if name != "FROM" {
			if slices.ContainsFunc(words[1:], func(w string) bool {
				return strings.HasPrefix(w, "--security") || strings.HasPrefix(w, "--network") || strings.HasPrefix(w, "--device")
			}) {
				ci.Addf("%s with flags that lift the bounds of a build: expected none of --security, --network and --device", name)
			}
			continue
		}
		args := slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "--") })
		if len(args) != 1 && !(len(args) == 3 && strings.EqualFold(args[1], "AS")) {
			ci.Addf("%q: expected FROM image, or FROM image AS name", line)
			continue
		}
		if strings.Contains(line, "$") || !known(args[0]) {
			ci.Addf("base image %q is not allowed here, or not written out: expected one of %q", args[0], b.Images)
		}
		stages[strconv.Itoa(count)] = true
		if count++; len(args) == 3 {
			stages[strings.ToLower(args[2])] = true
		}
	}
}

const longestBuild = clock.Hour

func (b *Bounds) buildLimits(c Checker, build *Build) {
	if most := b.MaxMemory; most > 0 && (build.Memory < 0 || build.Memory > most) {
		c.In("memory").Addf("memory of %d bytes for a step of the build: expected at most %d", build.Memory, most)
	}
	if most := b.MaxMemory; most > 0 && (build.ShmSize < 0 || build.ShmSize > most) {
		c.In("shmSize").Addf("shared memory of %d bytes: expected at most %d", build.ShmSize, most)
	}
	if most := b.MaxNanoCPUs; most > 0 && (build.NanoCPUs < 0 || build.NanoCPUs > most) {
		c.In("nanoCPUs").Addf("%d billionths of a processor for a step of the build: expected at most %d", build.NanoCPUs, most)
	}
	if build.Timeout < 0 || build.Timeout > longestBuild {
		c.In("timeout").Addf("a build of %s: expected at most %s", build.Timeout, longestBuild)
	}
}

// foreignSyntax reports whether a builder might take the first line for the name of an
// image that is to read the rest.
func foreignSyntax(text string) bool {
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		trimmed := strings.TrimSpace(line)
		if trimmed == "" {
			continue
		}
		if strings.HasPrefix(trimmed, "{") {
			return true
		}
		comment, ok := strings.CutPrefix(trimmed, "#")
		if !ok {
			if comment, ok = strings.CutPrefix(trimmed, "//"); !ok {
				return false
			}
		}
		if key, _, set := strings.Cut(comment, "="); set && strings.EqualFold(strings.TrimSpace(key), "syntax") {
			return true
		}
	}
	return false
}

// from lists what --from= and from= of --mount name.
func from(words []string) []string {
	var out []string
	for _, w := range words {
		if ref, ok := strings.CutPrefix(w, "--from="); ok {
			out = append(out, ref)
		}
		options, ok := strings.CutPrefix(w, "--mount=")
		if !ok {
			continue
		}
		for option := range strings.SplitSeq(options, ",") {
			if key, ref, _ := strings.Cut(strings.Trim(option, `"`), "="); strings.EqualFold(strings.TrimSpace(key), "from") {
				out = append(out, strings.Trim(ref, `"`))
			}
		}
	}
	return out
}

// instructions joins continued lines the way builders do. It refuses what
// builders read in ways of their own: directives and here-documents.
func instructions(text string) ([]string, string) {
	var out []string
	joined := ""
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimLeft(line, " \t\v\f")
		if comment, ok := strings.CutPrefix(trimmed, "#"); ok {
			key, _, set := strings.Cut(comment, "=")
			key = strings.ToLower(strings.TrimSpace(key))
			if set && (key == "syntax" || key == "escape" || key == "check") {
				return nil, "the directive " + key + " changes how the Dockerfile is read"
			}
			continue
		}
		if strings.TrimSpace(trimmed) == "" {
			continue
		}
		if strings.Contains(line, "<<") {
			return nil, "a here-document"
		}
		if part, more := strings.CutSuffix(strings.TrimRight(line, " \t"), `\`); more {
			joined += part
			continue
		}
		if joined += line; strings.TrimSpace(joined) != "" {
			out = append(out, strings.TrimSpace(joined))
		}
		joined = ""
	}
	if strings.TrimSpace(joined) != "" {
		out = append(out, strings.TrimSpace(joined))
	}
	return out, ""
}
