package agentimages

import (
	"errors"
	"fmt"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/command"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"stackyard/internal/platform/core"
)

// maxDockerfile is the size limit of a Dockerfile, in bytes.
const maxDockerfile = 64 << 10

// checkDockerfile returns the rule that a Dockerfile breaks, or nil. It must not have a FROM instruction, neither
// alone nor after the FROM line of the base image: a parser directive such as "# escape=" has an effect only at the
// start of a file, so the two can have different instructions.
func checkDockerfile(base, text string) error {
	if len(text) > maxDockerfile {
		return fmt.Errorf("must have at most %d bytes, not %d", maxDockerfile, len(text))
	}
	if isBlank(text) {
		return nil
	}
	for _, file := range []struct {
		text   string
		before int // lines before the Dockerfile
	}{{text, 0}, {compose(base, text), 1}} {
		parsed, err := parse(file.text)
		if err != nil {
			return fmt.Errorf("is not a valid Dockerfile: %s", reason(err, file.before))
		}
		for _, instruction := range parsed.Children {
			if instruction.StartLine > file.before && isFrom(instruction) {
				return fmt.Errorf("must not have a FROM instruction (line %d): the base image is %q", instruction.StartLine-file.before, base)
			}
		}
	}
	return nil
}

// compose returns the whole Dockerfile of an image.
func compose(base, text string) string { return base + "\n" + text }

// isBlank reports whether a Dockerfile has no instructions, only comments and empty lines, which the parser refuses.
func isBlank(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

// isFrom reports whether an instruction is a FROM, also inside ONBUILD.
func isFrom(n *parser.Node) bool {
	for n != nil {
		switch strings.ToLower(n.Value) {
		case command.From:
			return true
		case command.Onbuild:
			if n.Next == nil || len(n.Next.Children) == 0 {
				return false
			}
			n = n.Next.Children[0]
		default:
			return false
		}
	}
	return false
}

// parse returns the instructions of a Dockerfile.
func parse(text string) (root *parser.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the parser failed: %v", r)
		}
	}()
	result, err := parser.Parse(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return result.AST, nil
}

// reason returns a parse error as one sentence, with the line if it is known.
func reason(err error, before int) string {
	text := core.Cut(strings.ReplaceAll(err.Error(), "\n", " "), 300)
	if located, ok := errors.AsType[*parser.LocationError](err); ok && len(located.Locations) > 0 && len(located.Locations[0]) > 0 {
		if line := located.Locations[0][0].Start.Line - before; line > 0 {
			return fmt.Sprintf("line %d: %s", line, text)
		}
	}
	return text
}

// unknownInstruction returns the first instruction of a Dockerfile that does not exist and its line, or "".
func unknownInstruction(text string) (name string, line int) {
	root, err := parse(text)
	if err != nil {
		return "", 0
	}
	for _, n := range root.Children {
		if _, known := command.Commands[strings.ToLower(n.Value)]; !known {
			return core.Cut(n.Value, 100), n.StartLine
		}
	}
	return "", 0
}

// hasHeredoc reports whether a Dockerfile has an instruction with a heredoc.
func hasHeredoc(text string) bool {
	root, err := parse(text)
	if err != nil {
		return false
	}
	for _, n := range root.Children {
		if len(n.Heredocs) > 0 {
			return true
		}
	}
	return false
}
