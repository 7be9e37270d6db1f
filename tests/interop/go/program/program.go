// Package program is what the Go programs share: the words they are called with, and what they print.
// The page ../../clients.py says what each of them must do.
package program

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Target names the cluster and the topic that a program works on.
type Target struct {
	Bootstrap []string
	Topic     string
}

// Produce is one run of a producer.
type Produce struct {
	Target
	First, Count int
	Codec        string
	Idempotent   bool
	PerSecond    int // 0: as fast as it goes
}

// Consume is one run of a member of a group.
type Consume struct {
	Target
	Group string
	Count int // different records after which it ends
}

// Admin is one run through the calls of an admin client.
type Admin struct {
	Target
	Data  string // a topic with records
	Group string // which has committed offsets of Data
}

// Client is what a module must be able to do.
type Client struct {
	Module  string
	Produce func(Produce) error
	Consume func(Consume) error
	Admin   func(Admin) error
}

// Run does what the command line says, and ends the process.
func Run(client Client) {
	if err := client.run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (client Client) run(words []string) error {
	if words[0] == "version" {
		fmt.Println(version(client.Module))
		return nil
	}
	target := Target{strings.Split(words[1], ","), words[2]}
	rest := words[3:]
	switch words[0] {
	case "produce":
		return client.Produce(Produce{target, number(rest[0]), number(rest[1]), rest[2],
			rest[3] == "idempotent", number(rest[4])})
	case "consume":
		return client.Consume(Consume{target, rest[0], number(rest[1])})
	case "admin":
		return client.Admin(Admin{target, rest[0], rest[1]})
	}
	return fmt.Errorf("no such verb: %s", words[0])
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return strings.TrimPrefix(dependency.Version, "v")
		}
	}
	return "?"
}

func number(text string) int {
	found, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return found
}

// Key of a numbered record: its number.
func Key(number int) []byte { return []byte(strconv.Itoa(number)) }

// Value of a numbered record: its number, and something that compression bites on.
func Value(number int) []byte {
	return []byte(fmt.Sprintf("%08d ", number) + strings.Repeat("replog ", 20))
}

// NumberOf the record with this value.
func NumberOf(value []byte) int { return number(string(value[:8])) }

// Told prints one record that was acknowledged, or read.
func Told(partition int32, offset int64, number int) {
	fmt.Printf("%d %d %d\n", partition, offset, number)
}

// Chunks calls send with the numbers of records, as many at a time as are due.
func (p Produce) Chunks(send func(numbers []int) error) error {
	size, pause := 500, time.Duration(0)
	if p.PerSecond > 0 {
		size = max(1, p.PerSecond/50)
		pause = time.Second * time.Duration(size) / time.Duration(p.PerSecond)
	}
	due := time.Now()
	for first := p.First; first < p.First+p.Count; first += size {
		var numbers []int
		for number := first; number < min(first+size, p.First+p.Count); number++ {
			numbers = append(numbers, number)
		}
		if err := send(numbers); err != nil {
			return err
		}
		due = due.Add(pause)
		time.Sleep(time.Until(due))
	}
	return nil
}

// Step is one call of an admin client. Its answer is printed after its name.
type Step struct {
	Name string
	Call func() (any, error)
}

// Steps makes the calls in their order and prints what they say.
func Steps(steps []Step) error {
	for _, step := range steps {
		answer, err := step.Call()
		if err != nil {
			return fmt.Errorf("%s: %w", step.Name, err)
		}
		fmt.Println(step.Name, answer)
	}
	return nil
}

// Soon asks until the answer is the wanted one, as brokers learn of a change one after the other.
func Soon(wanted int, ask func() (int, error)) (any, error) {
	limit := time.Now().Add(10 * time.Second)
	for {
		found, err := ask()
		if err != nil || found == wanted || time.Now().After(limit) {
			return found, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
