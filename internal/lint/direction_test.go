package lint

import (
	"fmt"
	"slices"
	"strings"
)

// anything stands for every other shell in the table of imports.
const anything = "*"

// mayImport is the written table of which shell may import which. A shell is a
// folder of internal (with all below it) or reconcile. Each line is a
// decision: a new one needs a reason that a reviewer accepts.
var mayImport = []struct {
	from   string
	to     []string
	reason string
}{
	{"store", []string{"disk"}, "an engine tells a full disk from one that failed, and brings its schema up to date"},
	{"control", []string{"disk", "store", "trust", "wire", "identity", "release", "reconcile"}, "the server runtime runs the framework with the kinds of sessions, verifies releases, appends, enrols and speaks the agent protocol"},
	{"agent", []string{"disk", "trust", "wire", "reconcile", "identity", "system", "docker", "router"}, "the agent verifies what it is sent, holds its identity and runs the framework with the managers and the router of its host"},
	{"nodes", []string{"wire", "nodesdk"}, "the hub speaks the protocol of nodes, which is public, reads as strictly as all the server does, and takes the server's refusals"},
	{"api", []string{"control", "store", "trust", "wire", "identity", "forecast", "replay", "logverify", "web", "nodes", "nodesdk", "strictyaml"}, "people type YAML on the page; the edge turns requests into inputs of the server runtime, hands the log out as replay and forecasts read it and an audit proves it, serves the page that asks it, and mounts the hub of nodes where nodes look for it"},
	{"logverify", []string{"control", "store", "trust", "wire", "identity", "release", "replay"}, "an audit verifies again what the server verified, from what it handed out"},
	{"replay", []string{"forecast", "release", "trust"}, "where a host's recorded answers no longer fit, the forecast's model of hosts goes on; a forecast begins where a log ends, with a release that is pushed then"},
	{"release", []string{"disk", "trust", "strictyaml", "compliance"}, "a release is read strictly, and signed and verified as it is written; its plan is asked the controls that it signs"},
	{"identity", []string{"disk", "trust"}, "enrolment tokens are signed documents"},
	{"testkit", []string{"identity", "release", "trust"}, "the fleet of signers signs what the product verifies"},
	{"keyring", []string{"disk", "trust", "identity"}, "a folder of keys holds signed root documents and keys in a TPM"},
	{"nodesdk", []string{"disk"}, "what a node remembers is written and locked as all other state is"},
	{"drivers", []string{"disk", "nodesdk", "strictyaml"}, "a driver implements the public interface, replaces files whole, and reads YAML as it is read where people type it"},
	{"system", []string{"disk", "reconcile"}, "files and profiles are managers of the framework"},
	{"docker", []string{"disk", "reconcile", "router", "sandbox"}, "container kinds are managers of the framework; routes are set in the host's router; its tests share one engine in a sandbox"},
	{"cli", []string{anything}, "the commands wire everything together"},
	{"bench", []string{anything}, "the benchmark stands where a fleet of agents, an operator and a release build stand"},
	{"sim", []string{anything}, "the world in a box holds every part"},
}

// testRooms are the packages without product code: they and files of tests alone may
// import one of them.
var testRooms = []string{"internal/testkit", "internal/testkit/testfleet", "internal/docker/dockertest", "internal/web/browse"}

// edges may be imported by commands, by the simulator and by each other only as
// the table says.
var edges = []string{"api", "web", "cli"}

// Direction checks the imports of one package of the module against cmd →
// edges → shells → core. Packages are given by folder below the root.
func Direction(from string, imports []string) []Finding {
	var out []Finding
	for _, to := range imports {
		if why := wrongWay(from, to); why != "" {
			out = append(out, Finding{File: from, Text: "imports " + to + ", but " + why})
		}
	}
	return out
}

func wrongWay(from, to string) string {
	switch {
	case strings.HasPrefix(to, "cmd/"):
		return "nothing imports a command: move the shared code into a package of internal"
	case to == "internal/lint":
		return "internal/lint is for its own tests only"
	case slices.Contains(testRooms, to):
		if slices.Contains(testRooms, from) {
			return ""
		}
		return "it is for tests: only files of tests and " + strings.Join(testRooms, ", ") + " import it"
	case strings.HasPrefix(from, "cmd/"), IsPure(to):
		return ""
	case IsPure(from):
		return "the core never imports a shell: pass the value in, or return an effect as data"
	}
	a, b := shell(from), shell(to)
	if a == b || allowed(a, b) {
		return ""
	}
	if slices.Contains(edges, b) {
		return "imports point from commands to edges to shells to core: " + b + " is an edge\n" + Table()
	}
	return "the table allows no import of " + b + " by " + a +
		": declare the small interface that you need where you need it and let the command wire it, or add a line with its reason\n" + Table()
}

// shell names the shell that a folder belongs to.
func shell(rel string) string {
	first, rest, _ := strings.Cut(rel, "/")
	if first != "internal" {
		return first
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

func allowed(from, to string) bool {
	for _, line := range mayImport {
		if line.from == from && (slices.Contains(line.to, to) || slices.Contains(line.to, anything)) {
			return true
		}
	}
	return false
}

// Table prints which shell may import which.
func Table() string {
	var b strings.Builder
	b.WriteString("  shells that may import other shells (internal/lint/direction_test.go):\n")
	for _, line := range mayImport {
		to := strings.Join(line.to, ", ")
		if to == anything {
			to = "anything"
		}
		fmt.Fprintf(&b, "    %-8s -> %-34s %s\n", line.from, to, line.reason)
	}
	return b.String()
}
