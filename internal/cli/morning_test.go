package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli"
	"github.com/steadyfleet/steady/internal/cli/command"
)

// TestMorning is the morning after: each trouble of the night is named with its cause by one command,
// the data of one page and one metric, and nothing else is; after its cure, none names anything.
func TestMorning(t *testing.T) { operate(t, "testdata/morning", nil) }

// inProcess runs a steady command without a process of its own.
func inProcess(ts *testscript.TestScript, args ...string) (code int, out string) {
	var stdout, stderr bytes.Buffer
	code = cli.Run(context.Background(), args, command.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Getenv: ts.Getenv})
	return code, stdout.String() + stderr.String()
}

// counted are the lines of the metric of the inbox that have an item.
var counted = regexp.MustCompile(`\nsteady_attention_items\{[^}]*\} [1-9]`)

// needs waits until one item alone needs a person: needs KIND/NAME CAUSE. Then the status, its exit
// code, the list, what the first page reads and the metric are that item, and nothing else. Needs
// nothing waits until no surface has an item.
func needs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) > 2 || len(args) == 1 && args[0] != "nothing" {
		ts.Fatalf("usage: needs KIND/NAME CAUSE, or needs nothing")
	}
	var last string
	eventually(ts, func() string { return fmt.Sprintf("that %v alone needs a person; at last\n%s\n", args, last) }, func() bool {
		code, said := inProcess(ts, "status", "--check")
		last = said
		if args[0] == "nothing" {
			return code == 0 && strings.Contains(said, "nothing needs you")
		}
		return code == 6 && strings.Contains(said, "1 item needs you") && regexp.MustCompile(args[1]).MatchString(said)
	})
	var page operator.Status
	_, raw := inProcess(ts, "status", "-o", "json")
	ts.Check(json.Unmarshal([]byte(raw), &page))
	if args[0] == "nothing" {
		if _, said := inProcess(ts, "attention"); page.Inbox.Needed != 0 || !strings.Contains(said, "Nothing needs you") {
			ts.Fatalf("%+v\n%s", page.Inbox, said)
		}
		scraped(ts, "no item in the metrics", func(all []byte) bool { return !counted.Match(all) })
		return
	}
	if page.Inbox.Needed != 1 || page.Inbox.Items[0].Key() != args[0] || !regexp.MustCompile(args[1]).MatchString(page.Inbox.Items[0].Reason) {
		ts.Fatalf("the page reads %+v", page.Inbox)
	}
	kind, _, _ := strings.Cut(args[0], "/")
	item := regexp.MustCompile(`\nsteady_attention_items\{kind="` + kind + `",level="(warning|critical|away)"\} 1\n`)
	scraped(ts, "one item of kind "+kind+" in the metrics", func(all []byte) bool {
		return item.Match(all) && len(counted.FindAll(all, -1)) == 1
	})
	fmt.Fprintf(ts.Stdout(), "%s alone needs a person: %s\n", args[0], page.Inbox.Items[0].Reason)
}
