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

// execWords reads the line as systemd.service(5) has it. What systemd would expand is an error.
func execWords(line string) (words []string, err error) {
	var word strings.Builder
	quote, within := byte(0), false
	line = strings.TrimLeft(line, "@-:+!|")
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\':
			decoded, n, err := unescape(line[i:])
			if err != nil {
				return nil, err
			}
			word.WriteString(decoded)
			i, within = i+n-1, true
		case c == quote && quote != 0:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, within = c, true
		case c == '$' || c == '%':
			if i+1 == len(line) || line[i+1] != c {
				return nil, errExpanded
			}
			i++
			word.WriteByte(c)
			within = true
		case quote == 0 && (c == ' ' || c == '\t'):
			if within {
				words = append(words, word.String())
			}
			word.Reset()
			within = false
		default:
			word.WriteByte(c)
			within = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quotation mark %c is not closed", quote)
	}
	if within {
		words = append(words, word.String())
	}
	return words, nil
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
func shellWords(line string) (words []string, err error) {
	var word strings.Builder
	quote, within := byte(0), false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == quote && quote != 0:
			quote = 0
		case quote == '\'':
			word.WriteByte(c)
		case c == '\\':
			if i++; i == len(line) {
				return nil, errors.New("the line ends in a backslash")
			}
			if quote == '"' && !strings.ContainsRune("$`\"\\", rune(line[i])) {
				word.WriteByte('\\')
			}
			word.WriteByte(line[i])
			within = true
		case c == '$' || c == '`':
			return nil, errExpanded
		case quote == 0 && (c == '"' || c == '\''):
			quote, within = c, true
		case quote == 0 && strings.IndexByte(";&|<>()*?[#~", c) >= 0:
			return nil, fmt.Errorf("a shell takes %c for more than itself: quote it", c)
		case quote == 0 && (c == ' ' || c == '\t'):
			if within {
				words = append(words, word.String())
			}
			word.Reset()
			within = false
		default:
			word.WriteByte(c)
			within = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quotation mark %c is not closed", quote)
	}
	if within {
		words = append(words, word.String())
	}
	return words, nil
}
