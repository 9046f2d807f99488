package file

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// maxOutput is how much of a command's output an error has.
const maxOutput = 2048

// run runs a command on a file, if there is one. Its processes end with the timeout.
func (d *Driver) run(ctx context.Context, command []string, path string) error {
	if len(command) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	args := make([]string, len(command))
	for i, a := range command {
		args[i] = strings.ReplaceAll(a, "{}", path)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("%s did not end in %v", command[0], d.o.Timeout)
	}
	if err != nil {
		if said := bytes.TrimSpace(out.last); len(said) > 0 {
			return fmt.Errorf("%s: %w: %s", command[0], err, said)
		}
		return fmt.Errorf("%s: %w", command[0], err)
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct{ last []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p...)
	t.last = t.last[max(0, len(t.last)-maxOutput):]
	return len(p), nil
}
