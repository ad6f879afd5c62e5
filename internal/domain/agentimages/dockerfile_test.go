package agentimages

import (
	"regexp"
	"strings"
	"testing"
)

const base = "FROM example.test/base:1"

func TestCheckDockerfile_RefusesFromWhereDockerSeesOne(t *testing.T) {
	for _, text := range []string{
		"FROM alpine",
		"from alpine",
		"FrOm alpine AS x",
		"  \tFROM alpine",
		"RUN a\nFROM alpine",
		"RUN a\r\nFROM alpine\r\n",
		"FR\\\nOM alpine",
		"F\\\n\\\nROM alpine",
		"FROM\\\n alpine",
		"RUN a \\\n# comment\n  && b\nFROM alpine",
		"RUN a \\\n\nFROM alpine \\\nand more\nFROM beta",
		"ARG X=alpine\nFROM ${X}",
		"ARG X\nARG Y\nFROM --platform=linux/amd64 $X",
		"ONBUILD FROM alpine",
		"onbuild from alpine",
		"RUN <<EOF\necho\nEOF\nFROM alpine",
		"RUN <<-EOF\n\techo\n\tEOF\nFROM alpine",
		"COPY <<A <<B /x/\na\nA\nb\nB\nFROM alpine",
		"LABEL x=<<EOF\nFROM alpine",             // no heredoc there
		"RUN [\"echo\", \"<<EOF\"]\nFROM alpine", // nor there
		"# escape=`\nRUN a \\\nFROM alpine",      // the backslash continues nothing
		"# escape=`\nFR`\nOM alpine",
		"# syntax=docker/dockerfile:1\n# escape=`\nRUN dir c:\\\nFROM alpine",
		"# comment\n# escape=`\nRUN a\nFROM alpine",
		"\ufeffFROM alpine",
		"FROM",
		"FROM\talpine",
		"FROM\valpine",
		"FROM scratch",
		"SHELL [\"x\"]\n\n\n   from   scratch",
	} {
		if err := checkDockerfile(base, text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestCheckDockerfile_AcceptsWhatIsNoFromInstruction(t *testing.T) {
	for _, text := range []string{
		"",
		"\n\n",
		"# FROM alpine",
		"RUN echo hi",
		"RUN echo \\\nFROM alpine",
		"RUN echo FROM alpine",
		"RUN <<EOF\nFROM alpine\nEOF",
		"RUN <<EOF\necho \\\nFROM\nEOF\nRUN x",
		"COPY <<EOF /Dockerfile\nFROM alpine\nEOF",
		"COPY --from=alpine /a /b",
		"ENV FROM=x",
		"ARG FROM",
		"FROMAGE x",
		"  RUN a \\\n    # FROM alpine\n    b",
	} {
		if err := checkDockerfile(base, text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCheckDockerfile_NamesTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"RUN a\n\nFROM alpine":           `must not have a FROM instruction (line 3): the base image is "FROM example.test/base:1"`,
		"RUN a\nENV a":                   "is not a valid Dockerfile: line 2: ENV must have two arguments",
		"RUN <<EOF\nx":                   "is not a valid Dockerfile: line 1: unterminated heredoc",
		strings.Repeat("#", 64<<10+1):    "must have at most 65536 bytes, not 65537",
		"# escape=x\nRUN a":              "is not a valid Dockerfile: invalid escape token 'x' does not match ` or \\",
		"RUN a\n" + "FR\\\nOM x\nFROM y": `must not have a FROM instruction (line 2): the base image is "FROM example.test/base:1"`,
	} {
		if err := checkDockerfile(base, text); err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// simpleFrom is a FROM instruction in a text without continuation lines and heredocs.
var simpleFrom = regexp.MustCompile(`(?im)^[ \t]*from([ \t]|$)`)

func FuzzCheckDockerfile(f *testing.F) {
	for _, text := range []string{"FROM x", "RUN a\nfrom b", "# escape=`\nFR`\nOM x", "RUN <<E\nFROM\nE", "ONBUILD ONBUILD FROM x", "\ufeff#=\n", "FR\\\nOM"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := checkDockerfile(base, text)
		if simple := !strings.ContainsAny(text, "\\`\r\v\f\ufeff") && !strings.Contains(text, "<<") && !strings.ContainsFunc(text, func(r rune) bool { return r > 126 }); simple {
			if found := simpleFrom.MatchString(text); found && err == nil {
				t.Fatalf("%q is accepted", text)
			}
		}
		if err != nil {
			return
		}
		// Docker sees only the FROM of the base image.
		root, parseErr := parse(compose(base, text))
		if parseErr != nil {
			t.Fatalf("%q is accepted and cannot be parsed: %v", text, parseErr)
		}
		for i, n := range root.Children {
			if isFrom(n) != (i == 0) {
				t.Fatalf("%q: instruction %d is %s", text, i, n.Value)
			}
		}
	})
}
