// Draw frames of matches: scenes of shapes, images and texts; see `ludus.rendering`.

const MAX_WIDTH = 960;
const MAX_HEIGHT = 560;
const PADDING = 8; // of the element around the canvas

export class Viewer {
  constructor(element) {
    this.element = element;
    this.canvas = element.appendChild(document.createElement("canvas"));
    this.canvas.setAttribute("aria-hidden", "true"); // the element around it has the label
    this.text = element.appendChild(document.createElement("pre"));
    this.caption = element.appendChild(document.createElement("p"));
    this.width = this.height = 1;
  }

  show(frame) {
    const isText = frame.kind === "text";
    this.canvas.hidden = isText;
    this.text.hidden = !isText;
    this.text.textContent = isText ? frame.text : "";
    this.caption.textContent = frame.caption || "";
    this.caption.hidden = !frame.caption;
    if (frame.kind === "scene") this.drawScene(frame);
    if (frame.kind === "image") this.drawImage(frame);
  }

  // Return [x, y] in the scene for a mouse event.
  place(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.width;
    const y = ((event.clientY - box.top) / box.height) * this.height;
    return [x, y];
  }

  resize(width, height) {
    [this.width, this.height] = [width, height];
    const room = Math.min(MAX_WIDTH, this.element.parentElement.clientWidth - 2 * PADDING);
    const scale = Math.min(room / width, MAX_HEIGHT / height);
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.canvas.width !== Math.round(w * ratio) || this.canvas.height !== Math.round(h * ratio)) {
      this.canvas.width = Math.round(w * ratio);
      this.canvas.height = Math.round(h * ratio);
      this.canvas.style.width = `${w}px`;
      this.canvas.style.height = `${h}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(this.canvas.width / width, 0, 0, this.canvas.height / height, 0, 0);
    this.pixel = width / this.canvas.width;
    return context;
  }

  drawScene(scene) {
    const context = this.resize(scene.width, scene.height);
    context.fillStyle = scene.background;
    context.fillRect(0, 0, scene.width, scene.height);
    for (const shape of scene.shapes) this.drawShape(context, shape);
  }

  drawShape(context, shape) {
    context.fillStyle = context.strokeStyle = shape.color;
    if (shape.kind === "circle") {
      context.beginPath();
      context.arc(shape.x, shape.y, shape.radius, 0, 2 * Math.PI);
      context.fill();
    } else if (shape.kind === "box") {
      context.fillRect(shape.x, shape.y, shape.width, shape.height);
    } else if (shape.kind === "line") {
      context.lineWidth = shape.width || this.pixel;
      context.beginPath();
      context.moveTo(shape.x1, shape.y1);
      context.lineTo(shape.x2, shape.y2);
      context.stroke();
    } else if (shape.kind === "sprite") {
      context.fillRect(shape.x - shape.width / 2, shape.y - shape.height / 2, shape.width, shape.height);
      context.fillStyle = "#ffffff";
      this.write(context, shape.name, shape.x, shape.y, shape.height / 3);
    } else if (shape.kind === "label") {
      this.write(context, shape.text, shape.x, shape.y, shape.size);
    }
  }

  // Browsers round small fonts, so letters are drawn at 20 pixels and scaled.
  write(context, text, x, y, size) {
    context.save();
    context.translate(x, y);
    context.scale(size / 20, size / 20);
    context.font = "20px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(text, 0, 0);
    context.restore();
  }

  drawImage(frame) {
    const context = this.resize(frame.width, frame.height);
    const bytes = Uint8Array.from(atob(frame.data), (letter) => letter.charCodeAt(0));
    const image = new ImageData(frame.width, frame.height);
    for (let i = 0, j = 0; i < bytes.length; i += 3, j += 4) {
      image.data.set(bytes.subarray(i, i + 3), j);
      image.data[j + 3] = 255;
    }
    const source = new OffscreenCanvas(frame.width, frame.height);
    source.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(source, 0, 0);
  }
}
