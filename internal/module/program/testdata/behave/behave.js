#!/usr/bin/env node
// One way in which a program of a module behaves: the first argument names it.
const fs = require("fs");
const [way, argument] = process.argv.slice(2);
const temp = process.env.TMPDIR;
const hang = () => setInterval(() => {}, 1000);

const ways = {
  exit: () => process.exit(Number(argument)),
  signal: () => { process.kill(process.pid, "SIGTERM"); hang(); },
  slow: () => setTimeout(() => console.log("done"), 100),
  hang: () => { console.log("on"); hang(); },
  ignore: () => {
    process.on("SIGTERM", () => {});
    fs.writeFileSync(temp + "/on", "");
    hang();
  },
  fork: () => {
    for (let i = 0; i < 20; i++) require("child_process").spawn("sleep", ["1000"], { detached: true, stdio: "ignore" }).unref();
    console.log("forked 20");
  },
  bomb: () => setInterval(() => {
    require("child_process").spawn(process.argv[1], ["bomb"], { detached: true, stdio: "ignore" }).on("error", () => {});
  }, 1),
  flood: () => {
    for (let i = 0; i < 4; i++) process.stdout.write("x".repeat(1_000_000));
    console.error("end");
  },
  half: () => {
    fs.writeSync(1, "half\n");
    process.kill(process.pid, "SIGKILL");
    hang();
  },
  eat: () => {
    for (const all = []; ; ) all.push(Buffer.allocUnsafe(1 << 26));
  },
  files: () => {
    for (let i = 0; i < 1000; i++) fs.writeFileSync(`${temp}/${i}`, "");
    hang();
  },
  removed: () => {
    for (let i = 0; i < 8; i++) {
      const fd = fs.openSync(temp + "/x", "w");
      fs.unlinkSync(temp + "/x");
      fs.writeSync(fd, Buffer.alloc(4 << 20));
    }
    hang();
  },
  bytes: () => {
    for (let i = 0; i < 8; i++) fs.writeFileSync(`${temp}/${i}`, Buffer.alloc(4 << 20));
    hang();
  },
};
ways[way]();
