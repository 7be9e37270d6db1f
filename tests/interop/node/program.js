// What the Node programs share: the words they are called with, what they print, and producing and
// consuming, which both libraries do with the same calls. ../clients.py says what a program must do.
'use strict'

const FILLER = 'replog '.repeat(20)
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const told = (partition, offset, number) => console.log(`${partition} ${offset} ${number}`)

// `client` has version, producer(options), consumer(group) and admin(options), all but the first async.
async function run(client) {
  const [verb, bootstrap, topic, ...rest] = process.argv.slice(2)
  const brokers = bootstrap?.split(',')
  if (verb === 'version') {
    console.log(client.version)
  } else if (verb === 'produce') {
    const [first, count, codec, mode, perSecond] = rest
    const producer = await client.producer({ brokers, codec, idempotent: mode === 'idempotent' })
    await produce(producer, topic, Number(first), Number(count), Number(perSecond))
    await producer.disconnect()
  } else if (verb === 'consume') {
    const consumer = await client.consumer({ brokers, group: rest[0], topic })
    await consume(consumer, topic, Number(rest[1]))
    await consumer.disconnect()
  } else if (verb === 'admin') {
    await client.admin({ brokers, topic, data: rest[0], group: rest[1] })
  } else {
    throw new Error(`no such verb: ${verb}`)
  }
}

// Sends what is due to each of three partitions, to each of them in turn: kafkajs keeps no order among
// calls that run at the same time.
async function produce(producer, topic, first, count, perSecond) {
  const size = perSecond ? Math.max(3, Math.ceil(perSecond / 20)) : 300
  const pauseMs = perSecond ? (1000 * size) / perSecond : 0
  let due = Date.now()
  const answers = [Promise.resolve(), Promise.resolve(), Promise.resolve()]
  for (let start = first; start < first + count; start += size) {
    const byPartition = [[], [], []]
    for (let number = start; number < Math.min(start + size, first + count); number++) {
      byPartition[number % 3].push(number)
    }
    byPartition.forEach((numbers, partition) => {
      if (!numbers.length) return
      answers[partition] = answers[partition].then(() => send(producer, topic, partition, numbers))
    })
    due += pauseMs
    await sleep(Math.max(0, due - Date.now()))
  }
  await Promise.all(answers)
}

async function send(producer, topic, partition, numbers) {
  const messages = numbers.map((number) => ({
    partition,
    key: String(number),
    value: `${String(number).padStart(8, '0')} ${FILLER}`,
  }))
  const [answer] = await producer.send({ topic, messages })
  numbers.forEach((number, index) => told(partition, Number(answer.baseOffset) + index, number))
}

// Reads until `count` different records were seen; commits what was processed on the way and at the end.
async function consume(consumer, topic, count) {
  const seen = new Set()
  const next = new Map() // partition -> the position to commit
  let enough
  const done = new Promise((resolve) => {
    enough = resolve
  })
  const commit = () =>
    consumer.commitOffsets(
      [...next].map(([partition, offset]) => ({ topic, partition, offset: String(offset) })),
    )
  let sinceCommit = 0
  consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      if (seen.size >= count) return
      const number = Number(String(message.value).slice(0, 8))
      seen.add(number)
      told(partition, message.offset, number)
      next.set(partition, BigInt(message.offset) + 1n)
      if (++sinceCommit >= 100) {
        sinceCommit = 0
        await commit().catch(() => {}) // the coordinator may be gone: the next one tells it all
      }
      if (seen.size >= count) enough()
    },
  })
  await done
  await commit()
}

// Makes calls in their order and prints what they answer.
async function steps(calls) {
  for (const [name, call] of Object.entries(calls)) {
    console.log(name, await call())
  }
}

// Asks until the answer is the wanted one, as brokers learn of a change one after the other.
async function soon(wanted, ask) {
  const limit = Date.now() + 10_000
  for (;;) {
    const found = await ask().catch((error) => error.message)
    if (found === wanted || Date.now() > limit) return found
    await sleep(50)
  }
}

function main(client) {
  run(client).then(
    () => process.exit(0),
    (error) => {
      console.error(error)
      process.exit(1)
    },
  )
}

module.exports = { main, steps, soon }
