package lint

import (
	"bytes"
	"fmt"
	"slices"
)

// judges are the packages that judge decisions, with what they may not import: judge and
// judged share no decision.
var judges = map[string][]string{
	"internal/core/oracle":    {"internal/core/plan", "internal/core/gate", "internal/core/agent", "internal/core/server"},
	"internal/driftsim/judge": {"internal/core/drift"},
}

// Judge checks one file of a package that judges: its imports, and that it follows a
// host by its reports instead of stepping the machine that the planner steps too.
func Judge(pkg, file string, imports []string, src []byte) []Finding {
	var out []Finding
	for _, to := range judges[pkg] {
		if slices.Contains(imports, Module+"/"+to) {
			out = append(out, Finding{File: file, Text: fmt.Sprintf("imports %s, which decides what the package judges: write the rule from its description", to)})
		}
	}
	if judges[pkg] != nil && bytes.Contains(src, []byte("host.Step(")) {
		out = append(out, Finding{File: file, Text: "steps the machine of a host, as the planner does: follow its reports"})
	}
	return out
}
