package blob

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"stackyard/internal/platform/core"
)

// A journal is a file of pieces in a folder: appended records, each a header and the bytes. The pieces of one
// key that start within the same MiB, and that one process adds, share a journal. Its name starts with the
// offset of that MiB.
//
// To add a piece, a process writes one record with one call, makes the file durable, and then checks that the
// file still has its name. To remove pieces, a process first renames the file, so that nothing added later is
// acknowledged, and then reads the file. So processes need no lock between them.
//
// A process that dies, or a full disk, can leave a part of a record, whose piece was not acknowledged. Nothing
// follows it: no other process writes to the file, and this one does not after a failure.
type journals struct {
	writer string // in the names of the journals of this process
	// locks are the locks of journals by path: one write at a time, so that writes after a failed one go to
	// another file.
	locks *[64]sync.Mutex
}

func newJournals() journals { return journals{writer: core.NewID(), locks: new([64]sync.Mutex)} }

const (
	journalSpan = 1 << 20
	// maxJournal bounds the size of a journal; only many tiny pieces reach it.
	maxJournal = 8 << 20
	// openSuffix ends the name of a journal to which pieces can be added.
	openSuffix = ".open"

	headerSize  = 28
	headerMagic = 0x53594731
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errRenamed means that a journal was renamed while a piece was added.
var errRenamed = errors.New("the journal was renamed")

// lock locks a journal, and returns the function that unlocks it.
func (j journals) lock(path string) (unlock func()) {
	lock := &j.locks[crc32.ChecksumIEEE([]byte(path))%uint32(len(j.locks))]
	lock.Lock()
	return lock.Unlock
}

func appendHeader(b []byte, offset int64, content []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, headerMagic)
	b = binary.BigEndian.AppendUint64(b, uint64(offset))
	b = binary.BigEndian.AppendUint64(b, uint64(len(content)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(content, castagnoli))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// parseHeader parses a header; its bytes follow it at a position.
func parseHeader(b []byte, position int64) (Piece, bool) {
	if len(b) < headerSize || binary.BigEndian.Uint32(b) != headerMagic ||
		binary.BigEndian.Uint32(b[headerSize-4:]) != crc32.Checksum(b[:headerSize-4], castagnoli) {
		return Piece{}, false
	}
	p := Piece{
		Offset:   int64(binary.BigEndian.Uint64(b[4:])),
		Size:     int64(binary.BigEndian.Uint64(b[12:])),
		sum:      binary.BigEndian.Uint32(b[20:]),
		position: position,
	}
	return p, p.Size > 0 && p.Size <= MaxPiece && p.Offset >= 0 && p.Offset <= maxOffset
}

func (f *folder) addPiece(_ context.Context, key string, offset int64, content []byte) error {
	record := make([]byte, 0, headerSize+len(content))
	record = append(appendHeader(record, offset, content), content...)
	name := fmt.Sprintf("%012x.%s%s", offset-offset%journalSpan, f.journals.writer, openSuffix)
	for {
		if err := f.appendRecord(key, name, record); !errors.Is(err, errRenamed) {
			return err
		}
	}
}

func (f *folder) appendRecord(key, name string, record []byte) (err error) {
	path := filepath.Join(f.path(key), name)
	journal, err := f.openJournal(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	before, err := journal.Stat()
	if err != nil {
		return err
	}
	switch size := before.Size(); {
	case size > maxJournal:
		return errors.New("there are too many small pieces")
	case size == 0:
		// The first record is written only after the name is durable, so a file with records needs no more.
		if err := f.syncFolder(filepath.Dir(path)); err != nil {
			return err
		}
	}
	if err := f.writeRecord(key, name, journal, record); err != nil {
		return err
	}
	if err := f.sync(journal); err != nil {
		return err
	}
	named, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(before, named) {
		return errRenamed
	}
	return err
}

// writeRecord writes a record. After a failure, which can leave a part of it, the journal gets no more.
func (f *folder) writeRecord(key, name string, journal *os.File, record []byte) error {
	defer f.journals.lock(journal.Name())()
	_, err := journal.Write(record)
	if err != nil {
		_, renaming := f.retire(key, name)
		err = errors.Join(err, renaming)
	}
	return err
}

// retire renames a journal, so that no more pieces are added to it, and returns its new name.
func (f *folder) retire(key, name string) (string, error) {
	offset, _, _ := strings.Cut(name, ".") // a name begins with the offset of its MiB
	retired := offset + "." + core.NewID()
	return retired, os.Rename(filepath.Join(f.path(key), name), filepath.Join(f.path(key), retired))
}

func (f *folder) openJournal(path string) (*os.File, error) {
	for tries := folderTries; ; tries-- {
		journal, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if tries == 0 || !errors.Is(err, fs.ErrNotExist) {
			return journal, err
		}
		if err := f.makeFolders(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

func (f *folder) pieces(ctx context.Context, key string, from, to int64) ([]Piece, error) {
	entries, err := os.ReadDir(f.path(key))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var found []Piece
	for _, entry := range entries {
		start, _, _ := strings.Cut(entry.Name(), ".")
		begins, err := strconv.ParseInt(start, 16, 64)
		if err != nil || begins >= to || begins+journalSpan+MaxPiece <= from {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		pieces, err := f.scanJournal(key, entry.Name())
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		found = append(found, pieces...)
	}
	return found, nil
}

// scanJournal returns the pieces in a journal, without reading their bytes.
func (f *folder) scanJournal(key, name string) ([]Piece, error) {
	journal, err := os.Open(filepath.Join(f.path(key), name))
	if err != nil {
		return nil, absent(err)
	}
	defer journal.Close()
	stat, err := journal.Stat()
	if err != nil {
		return nil, err
	}
	return scanRecords(journal, stat.Size(), name)
}

// scanRecords returns the pieces in a journal of a size. It reads little more than the headers, several at once
// if the pieces are small.
func scanRecords(journal io.ReaderAt, size int64, name string) ([]Piece, error) {
	var found []Piece
	var buffer [4 << 10]byte
	read, at := buffer[:0], int64(0) // the last bytes read, and their position
	for position := int64(0); position+headerSize < size; {
		if position+headerSize > at+int64(len(read)) {
			n, err := journal.ReadAt(buffer[:], position)
			if err != nil && err != io.EOF {
				return nil, err
			}
			read, at = buffer[:n], position
		}
		p, ok := parseHeader(read[position-at:], position+headerSize)
		if !ok || p.position+p.Size > size {
			break // a part of a record
		}
		p.name = name
		found = append(found, p)
		position = p.position + p.Size
	}
	return found, nil
}

func (f *folder) readPiece(_ context.Context, key string, p Piece) ([]byte, error) {
	journal, err := os.Open(filepath.Join(f.path(key), p.name))
	if err != nil {
		return nil, absent(err)
	}
	defer journal.Close()
	content := make([]byte, p.Size)
	if _, err := journal.ReadAt(content, p.position); err != nil {
		return nil, err
	}
	if crc32.Checksum(content, castagnoli) != p.sum {
		return nil, ErrDamaged
	}
	return content, nil
}

func (f *folder) removePieces(_ context.Context, key string, pieces []Piece) error {
	byName := map[string]map[int64]bool{} // positions
	for _, p := range pieces {
		if byName[p.name] == nil {
			byName[p.name] = map[int64]bool{}
		}
		byName[p.name][p.position] = true
	}
	for name, positions := range byName {
		if err := f.removeJournal(key, name, positions); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	f.prune(f.path(key))
	return nil
}

// removeJournal removes a journal if it has no other pieces than those at positions.
func (f *folder) removeJournal(key, name string, positions map[int64]bool) error {
	retired := name
	if strings.HasSuffix(name, openSuffix) {
		var err error
		if retired, err = f.retire(key, name); err != nil {
			return err
		}
	}
	held, err := f.scanJournal(key, retired)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(held, func(p Piece) bool { return !positions[p.position] }) {
		return nil
	}
	return os.Remove(filepath.Join(f.path(key), retired))
}

// joinPieces does nothing: pieces in one file are read together anyway.
func (f *folder) joinPieces(context.Context, string, int64, int64) error { return nil }
