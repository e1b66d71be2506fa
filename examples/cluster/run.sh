#!/usr/bin/env bash
# A Spark master and two workers, a graph and its input in an object store, a load that loses a worker, and spark-submit.
# Needs `pip install 'omnigraph[spark]'`, $BUCKET, and the AWS_* settings of its store. Logs and answers are written into the current folder.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
graph=s3://$BUCKET/graphs/people

# Every machine has the same environment. Spark's scripts are in the folder of pyspark; java_home() writes a launcher for its Java.
export SPARK_HOME=$(python -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)')
export JAVA_HOME=$(python -c 'from omnigraph.spark.java import java_home; print(java_home())')
export PYSPARK_PYTHON=$(python -c 'import sys; print(sys.executable)') SPARK_LOCAL_IP=127.0.0.1 SPARK_WORKER_DIR=$PWD/work
export MASTER=spark://127.0.0.1:${PORT:=7077}
start() { setsid "$SPARK_HOME/bin/spark-class" "$@" < /dev/null > "$NAME.log" 2>&1 & echo $! > "$NAME.pid"; }
NAME=master start org.apache.spark.deploy.master.Master --host 127.0.0.1 --port "$PORT" --webui-port 0
NAME=worker-1 start org.apache.spark.deploy.worker.Worker --cores 1 --memory 1g --webui-port 0 "$MASTER"
NAME=worker-2 start org.apache.spark.deploy.worker.Worker --cores 1 --memory 1g --webui-port 0 "$MASTER"

omnigraph init "$graph" --schema "$here/people.pg"
python "$here/write_input.py"
omnigraph load "$graph" --data "s3://$BUCKET/in/" --mode append --engine "$MASTER" --json > receipt.json 2> load.log &
loading=$!
until grep -q "Running Spark version\|Launching executor\|Registered app\|Asked to launch executor" worker-1.log; do
  kill -0 $loading || { cat load.log; exit 1; }
  sleep 0.2
done
kill -9 -- -"$(cat worker-1.pid)"
wait $loading || { cat load.log; exit 1; }
grep '"total_entities": 80000' receipt.json

# The tasks of the lost worker ran again on the other one. There is one commit, with every row once.
omnigraph query "$graph" --json -e 'query n() { match { $a: Person  $a knows $b } return { count($b) as known } }' > counted.json
omnigraph verify "$graph"
test "$(omnigraph log "$graph" --json | grep -c '"kind": "load"')" = 1

"$SPARK_HOME/bin/spark-submit" --master "$MASTER" "$here/grow_older.py" > job.log 2> job.err || { tail -50 job.err; exit 1; }
grep 'updated' job.log
kill -9 -- -"$(cat worker-2.pid)" -"$(cat master.pid)"
