package netconf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxMessage bounds one message of a device, in bytes.
const maxMessage = 32 << 20

// endOfMessage ends a message of NETCONF 1.0 (RFC 6242 section 4.3).
var endOfMessage = []byte("]]>]]>")

// frames reads and writes messages; chunked is the framing of NETCONF 1.1 (RFC 6242
// section 4.2).
type frames struct {
	in      *bufio.Reader
	out     io.Writer
	chunked bool
}

func (f *frames) write(message []byte) error {
	var b bytes.Buffer
	if f.chunked {
		fmt.Fprintf(&b, "\n#%d\n%s\n##\n", len(message), message)
	} else {
		b.Write(message)
		b.Write(endOfMessage)
	}
	_, err := f.out.Write(b.Bytes())
	return err
}

func (f *frames) read() ([]byte, error) {
	if f.chunked {
		return f.readChunks()
	}
	var out []byte
	for {
		part, err := f.in.ReadSlice('>')
		out = append(out, part...)
		switch {
		case len(out) > maxMessage:
			return nil, errTooLong
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case bytes.HasSuffix(out, endOfMessage):
			return bytes.TrimSuffix(out, endOfMessage), nil
		}
	}
}

var errTooLong = fmt.Errorf("a message of the device has more than %d bytes", maxMessage)

func (f *frames) readChunks() ([]byte, error) {
	var out []byte
	for {
		size, last, err := f.header()
		switch {
		case err != nil:
			return nil, err
		case last && len(out) == 0:
			return nil, errors.New("a message of the device is empty")
		case last:
			return out, nil
		case size > maxMessage-len(out): // their sum need not fit into 32 bits
			return nil, errTooLong
		}
		at := len(out)
		out = append(out, make([]byte, size)...)
		if _, err := io.ReadFull(f.in, out[at:]); err != nil {
			return nil, err
		}
	}
}

// header reads that of a chunk, or of the end of a message.
func (f *frames) header() (size int, last bool, err error) {
	var line [16]byte // the longest number of a chunk has 10 digits
	n := 0
	for {
		c, err := f.in.ReadByte()
		if err != nil {
			return 0, false, err
		}
		if n > 1 && c == '\n' {
			break
		}
		if n == len(line) {
			return 0, false, errChunk
		}
		line[n] = c
		n++
	}
	if string(line[:n]) == "\n##" {
		return 0, true, nil
	}
	if line[0] != '\n' || line[1] != '#' || n < 3 || line[2] < '1' || line[2] > '9' {
		return 0, false, errChunk
	}
	u, err := strconv.ParseUint(string(line[2:n]), 10, 31)
	if err != nil {
		return 0, false, errChunk
	}
	return int(u), false, nil
}

var errChunk = errors.New("the device does not frame its messages as NETCONF 1.1 has it")
