package omnigraph.spark;

import java.io.IOException;
import java.util.Iterator;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.unsafe.types.UTF8String;
import scala.runtime.AbstractFunction0;

/**
 * The changes of one task. Spark hands them over one by one, and the Python writer takes all of them from an iterator, so it runs in a
 * thread of its own, with a queue between the two.
 */
public class RowWriter extends AbstractFunction0 implements DeltaWriter, Iterator, Runnable {
  private static final int MAX_WAITING = 4096;
  private static final InternalRow END = new GenericInternalRow(0);
  private static final InternalRow STAYS = new GenericInternalRow(new Object[] {Boolean.FALSE});
  private DataWriter load;
  private int columns;
  private int id;
  private ArrayBlockingQueue waiting = new ArrayBlockingQueue(MAX_WAITING);
  private TaskContext context = TaskContext.get();
  private Thread thread;
  private InternalRow next;
  private volatile Throwable failure;

  public RowWriter(DataWriter load, int columns, int id) {
    this.load = load;
    this.columns = columns;
    this.id = id;
    thread = new Thread(this, "omnigraph rows");
    thread.setDaemon(true);
    thread.start();
  }

  public void delete(Object metadata, Object row) throws IOException {
    GenericInternalRow gone = new GenericInternalRow(columns);
    gone.update(id, ((InternalRow) row).getUTF8String(0).clone());
    if (columns > 1) gone.update(columns - 1, Boolean.TRUE);
    put(gone);
  }

  public void update(Object metadata, Object before, Object row) throws IOException {
    UTF8String own = ((InternalRow) before).getUTF8String(0);
    UTF8String other = ((InternalRow) row).isNullAt(id) ? null : ((InternalRow) row).getUTF8String(id);
    if (!own.equals(other))
      throw new IllegalArgumentException("the id of '" + own + "' cannot change: delete the row, and insert it under its new id");
    insert(row);
  }

  public void insert(Object row) throws IOException {
    put(new JoinedRow(((InternalRow) row).copy(), STAYS));
  }

  public void write(Object row) throws IOException {
    insert(row);
  }

  private void put(InternalRow row) throws IOException {
    try {
      while (!waiting.offer(row, 100L, TimeUnit.MILLISECONDS)) {
        if (!thread.isAlive()) {
          refuse();
          return;
        }
      }
    } catch (InterruptedException ended) {
      Thread.currentThread().interrupt();
      throw new IOException("the task was ended");
    }
  }

  private void refuse() throws IOException {
    if (failure instanceof RuntimeException) throw (RuntimeException) failure;
    if (failure != null) throw new IOException(failure);
  }

  public WriterCommitMessage commit() throws IOException {
    put(END);
    try {
      thread.join();
    } catch (InterruptedException ended) {
      Thread.currentThread().interrupt();
      throw new IOException("the task was ended");
    }
    refuse();
    return load.commit();
  }

  public void abort() throws IOException {
    thread.interrupt();
    load.abort();
  }

  public void close() throws IOException {
    thread.interrupt();
    load.close();
  }

  public void run() {
    try {
      TaskContext.withTaskContext(context, this);
    } catch (Throwable failed) {
      failure = failed;
    }
  }

  public Object apply() {
    try {
      load.writeAll(this);
    } catch (IOException failed) {
      throw new IllegalStateException(failed);
    }
    return null;
  }

  public boolean hasNext() {
    try {
      if (next == null) next = (InternalRow) waiting.take();
    } catch (InterruptedException ended) {
      throw new IllegalStateException("the task was ended");
    }
    return next != END;
  }

  public Object next() {
    InternalRow row = hasNext() ? next : null;
    next = null;
    return row;
  }

  public void remove() {
    throw new UnsupportedOperationException();
  }
}
