package file

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// pyYAML is a process that reads YAML with PyYAML: neither the editor's parser nor the driver's.
var pyYAML struct {
	sync.Mutex
	in  io.Writer
	out *bufio.Reader
	err error
}

// foreignYAML is the value of a document as PyYAML reads it.
func foreignYAML(raw []byte) (any, error) {
	p := &pyYAML
	p.Lock()
	defer p.Unlock()
	if p.in == nil && p.err == nil {
		p.err = startPyYAML()
	}
	if p.err != nil {
		return nil, p.err
	}
	if _, err := fmt.Fprintf(p.in, "%d\n%s", len(raw), raw); err != nil {
		return nil, err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var answer struct {
		Value any
		Error string
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	return answer.Value, nil
}

func startPyYAML() error {
	if err := testkit.PyYAML.Missing(); err != nil {
		return err
	}
	cmd := exec.Command("python3", "testdata/normalform.py") // it ends with its input
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	pyYAML.in, pyYAML.out = in, bufio.NewReader(out)
	return cmd.Start()
}

// needsPyYAML leaves a test out without it.
func needsPyYAML(t *testing.T) {
	t.Helper()
	testkit.Needs(t, testkit.PyYAML)
}

// TestYAMLByAnotherParser holds what each edit of the table makes against what PyYAML reads.
func TestYAMLByAnotherParser(t *testing.T) {
	needsPyYAML(t)
	for _, c := range yamlEdits {
		for _, text := range []string{c.text, c.want} {
			if text == "" {
				continue
			}
			mine, err := yamlFormat{}.parse([]byte(text))
			theirs, err2 := foreignYAML([]byte(text))
			if err := errors.Join(err, err2); err != nil || !same(spelled(copied(mine)), spelled(theirs)) {
				t.Errorf("%s: %q is read as %v and by PyYAML as %v: %v", c.name, text, mine, theirs, err)
			}
		}
	}
}
