#!/bin/sh
# Creates what does not exist yet, so that it can run before every start, and gives each volume to the user of its server.
set -eu
umask 077
cd /volumes

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

# once FILE: writes standard input to a file that does not exist. A file appears whole.
once() {
  if [ ! -e "$1" ]; then
    cat >"$1.new"
    mv "$1.new" "$1"
  else
    cat >/dev/null
  fi
}

once nats-auth/passwords.conf <<END
SLUICE_PASSWORD: "s$(random)"
APP_PASSWORD: "a$(random)"
SYSTEM_PASSWORD: "y$(random)"
END

route=r$(random)
once nats-auth/routes.conf <<END
authorization: {user: route, password: "$route"}
routes: [
  nats://route:$route@nats-1:6222
  nats://route:$route@nats-2:6222
  nats://route:$route@nats-3:6222
]
END

password=$(sed -n 's/^SLUICE_PASSWORD: "\(.*\)"$/\1/p' nats-auth/passwords.conf)
sed "s/NATS_PASSWORD\$/$password/" /init/sluice.yaml >sluice-config/config.yaml

# Both servers accept the same root token, and open secrets that either sealed.
once sluice-1/root.token <<END
root_$(random)
END
head -c 32 /dev/urandom | base64 | once sluice-1/secrets.key
once sluice-2/root.token <sluice-1/root.token
once sluice-2/secrets.key <sluice-1/secrets.key

random | once grafana-auth/admin.password

# Only root can, and only root must.
if [ "$(id -u)" = 0 ]; then
  chown -R 65532:65532 nats-auth nats-1 nats-2 nats-3 sluice-config sluice-1 sluice-2
  chown -R 472:0 grafana-auth
  chmod 700 nats-auth sluice-config grafana-auth
fi
