// @confluentinc/kafka-javascript (librdkafka) against a cluster, through its promises.
// It has no calls for configurations, for partitions of a topic that exists, and for brokers.
'use strict'

const { Kafka, logLevel } = require('@confluentinc/kafka-javascript').KafkaJS
const { main, soon, steps } = require('../node/program')

const kafka = (brokers) => new Kafka({ kafkaJS: { brokers, logLevel: logLevel.NOTHING } })

async function producer({ brokers, codec, idempotent }) {
  const made = kafka(brokers).producer({
    kafkaJS: { acks: -1, idempotent, compression: codec },
    'linger.ms': 5,
  })
  await made.connect()
  return made
}

async function consumer({ brokers, group, topic }) {
  const made = kafka(brokers).consumer({
    kafkaJS: { groupId: group, fromBeginning: true, autoCommit: false, sessionTimeout: 6000, heartbeatInterval: 500, maxWaitTimeInMs: 100 },
  })
  await made.connect()
  await made.subscribe({ topic })
  return { ...made, run: ({ eachMessage }) => made.run({ eachMessage }), commitOffsets: (all) => made.commitOffsets(all), disconnect: () => made.disconnect() }
}

async function admin({ brokers, topic, data, group }) {
  const made = kafka(brokers).admin()
  await made.connect()
  const states = ['UNKNOWN', 'PreparingRebalance', 'CompletingRebalance', 'Stable', 'Dead', 'Empty']
  await steps({
    create: async () => {
      const configEntries = [{ name: 'retention.ms', value: '123456' }]
      const wanted = { topic, numPartitions: 3, replicationFactor: 3, configEntries }
      return (await made.createTopics({ topics: [wanted] })) ? 'ok' : 'exists'
    },
    describe: () =>
      soon(3, async () => (await made.fetchTopicMetadata({ topics: [topic] }))[0].partitions.length),
    groups: async () => (await made.listGroups()).groups.some((found) => found.groupId === group),
    group: async () => states[(await made.describeGroups([group])).groups[0].state],
    offsets: async () => {
      const [found] = await made.fetchOffsets({ groupId: group, topics: [data] })
      return found.partitions.reduce((sum, { offset }) => sum + Number(offset), 0)
    },
    ends: async () =>
      (await made.fetchTopicOffsets(data)).reduce((sum, { high }) => sum + Number(high), 0),
    'delete-records': async () => {
      const [done] = await made.deleteTopicRecords({
        topic: data,
        partitions: [{ partition: 0, offset: '5' }],
      })
      return done.lowWatermark
    },
    'delete-group': async () => {
      const [done] = await made.deleteGroups([group])
      return done.errorCode ? done.error : 'ok'
    },
    delete: async () => {
      await made.deleteTopics({ topics: [topic] })
      return 'ok'
    },
  })
  await made.disconnect()
}

const version = require('@confluentinc/kafka-javascript/package.json').version
main({ version, producer, consumer, admin })
