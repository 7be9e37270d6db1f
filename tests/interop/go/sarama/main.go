// Sarama against a cluster.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"interop/program"
)

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func main() {
	program.Run(program.Client{
		Module: "github.com/IBM/sarama", Produce: produce, Consume: consume, Admin: admin,
	})
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	return config
}

func produce(p program.Produce) error {
	config := config()
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Compression = codecs[p.Codec]
	config.Producer.Return.Successes = true
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	config.Producer.Retry.Max = 100 // a tenth of a second between two: as patient as the others
	if p.Idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewAsyncProducer(p.Bootstrap, config)
	if err != nil {
		return err
	}
	var failed error
	var answers sync.WaitGroup
	answers.Add(2)
	go func() {
		defer answers.Done()
		for message := range producer.Successes() {
			program.Told(message.Partition, message.Offset, message.Metadata.(int))
		}
	}()
	go func() {
		defer answers.Done()
		for failure := range producer.Errors() {
			failed = errors.Join(failed, failure)
		}
	}()
	err = p.Chunks(func(numbers []int) error {
		for _, number := range numbers {
			producer.Input() <- &sarama.ProducerMessage{
				Topic:    p.Topic,
				Key:      sarama.ByteEncoder(program.Key(number)),
				Value:    sarama.ByteEncoder(program.Value(number)),
				Metadata: number,
			}
		}
		return nil
	})
	producer.AsyncClose()
	answers.Wait()
	return errors.Join(err, failed)
}

// A member of a group: one goroutine for each partition calls ConsumeClaim.
type member struct {
	sync.Mutex
	seen  map[int]bool
	count int
	done  context.CancelFunc
}

func (m *member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		m.Lock()
		number := program.NumberOf(message.Value)
		m.seen[number] = true
		program.Told(message.Partition, message.Offset, number)
		if len(m.seen) >= m.count {
			m.done()
		}
		m.Unlock()
	}
	return nil
}

func consume(c program.Consume) error {
	config := config()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	group, err := sarama.NewConsumerGroup(c.Bootstrap, c.Group, config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{seen: map[int]bool{}, count: c.Count, done: cancel}
	for ctx.Err() == nil {
		// It ends at each rebalance, and when the coordinator is gone.
		if err := group.Consume(ctx, []string{c.Topic}, m); err != nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return group.Close() // commits what was marked
}

func admin(a program.Admin) error {
	client, err := sarama.NewClient(a.Bootstrap, config())
	if err != nil {
		return err
	}
	adm, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return err
	}
	defer adm.Close()
	first, second := "123456", "654321"
	retention := func() (any, error) {
		found, err := adm.DescribeConfig(sarama.ConfigResource{
			Type: sarama.TopicResource, Name: a.Topic, ConfigNames: []string{"retention.ms"},
		})
		if err != nil {
			return nil, err
		}
		return found[0].Value, nil
	}
	partitions := func() (int, error) {
		found, err := adm.DescribeTopics([]string{a.Topic})
		if err != nil {
			return 0, err
		}
		return len(found[0].Partitions), nil
	}
	return program.Steps([]program.Step{
		{"cluster", func() (any, error) {
			found, _, err := adm.DescribeCluster()
			return len(found), err
		}},
		{"create", func() (any, error) {
			return "ok", adm.CreateTopic(a.Topic, &sarama.TopicDetail{
				NumPartitions: 3, ReplicationFactor: 3,
				ConfigEntries: map[string]*string{"retention.ms": &first},
			}, false)
		}},
		{"describe", func() (any, error) { return program.Soon(3, partitions) }},
		{"config", retention},
		{"alter", func() (any, error) {
			err := adm.IncrementalAlterConfig(sarama.TopicResource, a.Topic,
				map[string]sarama.IncrementalAlterConfigsEntry{
					"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &second},
				}, false)
			answer, further := retention()
			return answer, errors.Join(err, further)
		}},
		{"grow", func() (any, error) {
			if err := adm.CreatePartitions(a.Topic, 5, nil, false); err != nil {
				return nil, err
			}
			return program.Soon(5, partitions)
		}},
		{"groups", func() (any, error) {
			found, err := adm.ListConsumerGroups()
			_, listed := found[a.Group]
			return listed, err
		}},
		{"group", func() (any, error) {
			found, err := adm.DescribeConsumerGroups([]string{a.Group})
			if err != nil {
				return nil, err
			}
			return found[0].State, nil
		}},
		{"offsets", func() (any, error) {
			all := map[string][]int32{a.Data: {0, 1, 2}}
			found, err := adm.ListConsumerGroupOffsetsBatch(map[string]map[string][]int32{a.Group: all})
			if err != nil {
				return nil, err
			}
			sum := int64(0)
			for _, block := range found[a.Group].Blocks[a.Data] {
				sum += block.Offset
			}
			return sum, nil
		}},
		{"ends", func() (any, error) {
			newest := map[int32]int64{0: sarama.OffsetNewest, 1: sarama.OffsetNewest, 2: sarama.OffsetNewest}
			found, err := adm.ListOffsets(map[string]map[int32]int64{a.Data: newest}, nil)
			if err != nil {
				return nil, err
			}
			sum := int64(0)
			for _, partition := range found[a.Data] {
				sum += partition.Offset
			}
			return sum, nil
		}},
		{"delete-records", func() (any, error) {
			if err := adm.DeleteRecords(a.Data, map[int32]int64{0: 5}); err != nil {
				return nil, err
			}
			return client.GetOffset(a.Data, 0, sarama.OffsetOldest)
		}},
		{"delete-group", func() (any, error) { return "ok", adm.DeleteConsumerGroup(a.Group) }},
		{"delete", func() (any, error) { return "ok", adm.DeleteTopic(a.Topic) }},
	})
}
