package agentcmd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// execStart is a command as a unit of systemd has it: words may be quoted, and $ and % are
// doubled, since systemd expands them.
func execStart(command []string) (string, error) {
	var words []string
	for _, w := range command {
		w = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", "$$", "%", "%%", "\n", `\n`, "\t", `\t`).Replace(w)
		if w == "" || strings.ContainsAny(w, ` ;'"\`) {
			w = `"` + w + `"`
		}
		words = append(words, w)
	}
	return strings.Join(words, " "), nil
}

func readExecStart(lines []string) ([]string, error) {
	line, err := value(lines, "ExecStart=")
	if err != nil {
		return nil, err
	}
	words, err := execWords(line)
	if err != nil {
		return nil, fmt.Errorf("ExecStart=%s: %w", line, err)
	}
	return words, nil
}

var errExpanded = errors.New("a variable or specifier is expanded there, of which the value is not known")

// quoted collects the words of a line, of which parts may be in quotation marks.
type quoted struct {
	words  []string
	word   strings.Builder
	within bool // a word, which may be empty
	quote  byte // the open mark, or zero
}

func (q *quoted) put(s string) { q.word.WriteString(s); q.within = true }

// mark takes a quotation mark that opens or closes, and reports whether c is one.
func (q *quoted) mark(c byte) bool {
	switch {
	case q.quote != 0 && c == q.quote:
		q.quote = 0
	case q.quote == 0 && (c == '"' || c == '\''):
		q.quote, q.within = c, true
	default:
		return false
	}
	return true
}

// blank ends a word at a blank outside of marks, and reports whether c is one.
func (q *quoted) blank(c byte) bool {
	if q.quote != 0 || c != ' ' && c != '\t' {
		return false
	}
	if q.within {
		q.words = append(q.words, q.word.String())
	}
	q.word.Reset()
	q.within = false
	return true
}

func (q *quoted) end() ([]string, error) {
	if q.quote != 0 {
		return nil, fmt.Errorf("a quotation mark %c is not closed", q.quote)
	}
	q.blank(' ')
	return q.words, nil
}

// execWords reads the line as systemd.service(5) has it. What systemd would expand is an error.
func execWords(line string) ([]string, error) {
	var q quoted
	line = strings.TrimLeft(line, "@-:+!|")
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\':
			decoded, n, err := unescape(line[i:])
			if err != nil {
				return nil, err
			}
			q.put(decoded)
			i += n - 1
		case c == '$' || c == '%':
			if i+1 == len(line) || line[i+1] != c {
				return nil, errExpanded
			}
			i++
			q.put(string(c))
		case q.mark(c) || q.blank(c):
		default:
			q.put(line[i : i+1])
		}
	}
	return q.end()
}

// unescape reads the escape sequence that s begins with, as systemd has them, and reports its length.
func unescape(s string) (string, int, error) {
	if len(s) > 1 && s[1] == 's' {
		return " ", 2, nil
	}
	quote := byte('"')
	if len(s) > 1 && s[1] == '\'' {
		quote = '\''
	}
	r, multibyte, rest, err := strconv.UnquoteChar(s, quote)
	if err != nil {
		return "", 0, fmt.Errorf("%.4s is no escape sequence", s)
	}
	n := len(s) - len(rest)
	if !multibyte && r < 256 {
		return string([]byte{byte(r)}), n, nil
	}
	return string(r), n, nil
}

// shellCommand is a command as a script of OpenRC has it, which evaluates command_args once more after it cut
// them at blanks and put names of files in place of patterns, also within quotes.
func shellCommand(command []string) (string, error) {
	for _, w := range command {
		if strings.Contains(w, "  ") || strings.ContainsAny(w, "\t\n*?[") {
			return "", fmt.Errorf("OpenRC does not pass %q on as it is: give the agent no two blanks in a row, no tabs and none of * ? [", w)
		}
	}
	return "command=" + shellLine(command[:1]) + "\ncommand_args=" + shellLine([]string{shellLine(command[1:])}), nil
}

func readShellCommand(lines []string) (out []string, err error) {
	for _, begins := range []string{"command=", "command_args="} {
		line, err := value(lines, begins)
		if err != nil {
			return nil, err
		}
		words, err := shellWords(line)
		if err == nil && begins == "command_args=" && len(words) == 1 {
			words, err = shellWords(words[0])
		}
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", begins, line, err)
		}
		out = append(out, words...)
	}
	return out, nil
}

// shellLine is a command as a shell takes it.
func shellLine(command []string) string {
	var words []string
	for _, w := range command {
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%") != "" {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

// shellWords reads what shellLine wrote, and what people write like it. What a shell would expand is an error.
func shellWords(line string) ([]string, error) {
	var q quoted
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case q.quote == '\'' && c != '\'':
			q.put(line[i : i+1])
		case c == '\\':
			if i++; i == len(line) {
				return nil, errors.New("the line ends in a backslash")
			}
			if q.quote == '"' && !strings.ContainsRune("$`\"\\", rune(line[i])) {
				q.put("\\")
			}
			q.put(line[i : i+1])
		case c == '$' || c == '`':
			return nil, errExpanded
		case q.quote == 0 && strings.IndexByte(";&|<>()*?[#~", c) >= 0:
			return nil, fmt.Errorf("a shell takes %c for more than itself: quote it", c)
		case q.mark(c) || q.blank(c):
		default:
			q.put(line[i : i+1])
		}
	}
	return q.end()
}
