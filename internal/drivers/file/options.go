package file

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/drivers/base"
	"github.com/steadyfleet/steady/nodesdk"
)

// Options of Open, each with what it is for. From kind on they say what is no difference in the
// configuration of a program; see nodesdk.Collection.
var Options = [][2]string{
	{"path", "the file"},
	{"format", "json, yaml or toml (default: what the file's name ends with)"},
	{"at", "members that lead to the objects, with slashes (default: the document itself)"},
	{"identity", "members that name an object in a list, as in kind,metadata/name (default: a map)"},
	{"document", "one of a YAML file: a number, members as in kind=ConfigMap, or * (each an object)"},
	{"validate", "command that refuses a candidate; {} in it is the file, spaces separate words"},
	{"reload", "command after a change"},
	{"timeout", "of a command (default: 10s)"},
	{"kind", "of the objects, in any word of theirs such as camera (default: flow)"},
	{"secrets", "fields whose values never leave the node, separated by commas"},
	{"ignored", "fields that the device changes by itself"},
	{"ports", "fields with a port, or an address with one, that the device listens on"},
	{"sets", "lists whose order means nothing, as FIELD or FIELD=MEMBER"},
}

// Open returns a driver.
func Open(options map[string]string) (nodesdk.Driver, []nodesdk.Collection, error) {
	if options["path"] == "" {
		return nil, nil, errors.New("the driver needs --driver-option path=FILE")
	}
	var timeout time.Duration
	if given := options["timeout"]; given != "" {
		var err error
		if timeout, err = time.ParseDuration(given); err != nil || timeout <= 0 {
			return nil, nil, fmt.Errorf("--driver-option timeout=%s: expected a duration such as 10s", given)
		}
	}
	d, err := New(Config{Path: options["path"], Format: options["format"], At: options["at"], Kind: options["kind"], Identity: options["identity"], Document: options["document"],
		Validate: strings.Fields(options["validate"]), Reload: strings.Fields(options["reload"]), Timeout: timeout})
	if err != nil {
		return nil, nil, err
	}
	c := nodesdk.Collection{Kind: d.o.Kind, Secrets: base.List(options["secrets"]), Ignored: base.List(options["ignored"]), Ports: base.List(options["ports"])}
	for _, set := range base.List(options["sets"]) {
		field, member, _ := strings.Cut(set, "=")
		if c.Sets == nil {
			c.Sets = map[string]string{}
		}
		c.Sets[field] = member
	}
	return d, []nodesdk.Collection{c}, nil
}
