package export

import (
	"fmt"
	"os"
	"path"

	"github.com/sluice-io/sluice/internal/model"
)

const (
	lettersDir      = "events/dlq"
	lettersPosition = lettersDir + "/.position"
	letterTemp      = lettersDir + "/.letter.new"
)

// letters writes the files of dead letters.
type letters struct {
	root *os.Root
	at   position
}

// openLetters opens the files at their position. For another stream they are written from its
// beginning: each is replaced whole.
func openLetters(root *os.Root, id identity) (*letters, error) {
	if err := root.MkdirAll(lettersDir, dirMode); err != nil {
		return nil, err
	}
	at, _, err := readPosition(root, lettersPosition)
	if !at.isOf(id) {
		at.Seq = 0
	}
	at.Log = id.is
	return &letters{root, at}, err
}

// write writes each letter's file and then the position.
func (l *letters) write(batch []model.BuriedLetter) error {
	for i := range batch {
		d := &batch[i]
		name := letterFile(d)
		if err := l.root.MkdirAll(path.Dir(name), dirMode); err != nil {
			return err
		}
		content, err := d.AppendJSON(nil)
		if err != nil {
			return err
		}
		if err := replace(l.root, name, letterTemp, append(content, '\n')); err != nil {
			return err
		}
	}
	l.at.Seq = batch[len(batch)-1].LetterSeq
	return l.at.save(l.root, lettersPosition)
}

// letterFile returns the name of a letter's file. A letter without a known event is named after its
// own sequence, in a form that no file name of an event has.
func letterFile(d *model.BuriedLetter) string {
	name := harmless(d.EventID)
	if d.EventID == "" {
		name = fmt.Sprintf("%%letter-%d", d.LetterSeq)
	}
	return path.Join(lettersDir, harmless(d.Subscription), name+".json")
}
