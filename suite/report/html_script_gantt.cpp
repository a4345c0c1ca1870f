// The half of the page's script that draws pipeline pictures. A lane is drawn by level of detail: each device pixel
// column gets one category of those that occur in it, so chosen that over neighbouring columns each keeps its share (as
// the still picture does it); the work of a frame is bounded by the pixels and the spans in sight.
#include "suite/report/html_parts.h"

namespace benchsuite::html {

std::string_view gantt_script() {
  return R"js(
(()=>{'use strict';
const NAMES=['forward','recompute','backward','optimizer','tensor','tensor_recompute','pipeline','data','embedding','global',
'bubble'],BUBBLE=10,TITLES=['forward','recompute','backward','optimizer','tensor comm','recomputed comm','pipeline comm',
'data comm','embedding comm','global comm','bubble'];
const tip=document.getElementById('tip');
// Literals, then what was there before, over and over (gantt_data.cpp).
function unpack(text){const b=atob(text),out=[];let i=0;
const number=()=>{let x=0,shift=0,c;do{c=b.charCodeAt(i++);x+=(c&127)*2**shift;shift+=7}while(c>127);return x};
while(i<b.length){for(let n=number();n--;)out.push(b.charCodeAt(i++));if(i>=b.length)break;
let n=number();const d=number();for(;n--;)out.push(out[out.length-d])}return out}
function lane(bytes,tokens){let n=0;for(let i=0;i<bytes.length;i++,n++)if(bytes[i]>=224)i++;
const end=new Float64Array(n),kind=new Uint8Array(n),batch=new Int32Array(n),chunk=new Int16Array(n);
let now=0,b=-1,c=-1;
for(let i=0,k=0;i<bytes.length;i++,k++){let t=bytes[i];if(t>=224)t=(t-224)*256+bytes[++i]+224;t*=4;
now+=tokens[t+1];b+=tokens[t+2];c+=tokens[t+3];end[k]=now;kind[k]=tokens[t];batch[k]=b;chunk[k]=c}
// A pass: the stay of one micro-batch in a chunk, forward or backward.
const passes=[];let p=null;
for(let k=0;k<n;k++){if(kind[k]===BUBBLE||kind[k]>=6)continue;const side=kind[k]===0?1:kind[k]===2||kind[k]===1||kind[k]===5?2:0;
if(p&&p.batch===batch[k]&&p.chunk===chunk[k]&&(!side||!p.side||p.side===side)){p.end=end[k];if(side)p.side=side}
else{p={start:k?end[k-1]:0,end:end[k],batch:batch[k],chunk:chunk[k],side};passes.push(p)}}
return{end,kind,batch,chunk,passes}}
// First index whose end lies after x.
function after(end,x){let a=0,b=end.length;while(a<b){const m=a+b>>1;if(end[m]>x)b=m;else a=m+1}return a}
const owed=new Float64Array(11),share=new Float64Array(11);
function columns(l,from,to,count,out,offset,colour){const per=(to-from)/count;let i=after(l.end,from);owed.fill(0);
for(let c=0;c<count;c++){const x0=from+c*per,x1=x0+per;while(i<l.end.length&&l.end[i]<=x0)i++;
if(i>=l.end.length){out[offset+c]=colour[BUBBLE];continue}
if(l.end[i]>=x1){out[offset+c]=colour[l.kind[i]];continue}
share.fill(0);let j=i,at=x0;while(j<l.end.length&&at<x1){const e=Math.min(x1,l.end[j]);share[l.kind[j]]+=(e-at)/per;at=e;if(l.end[j]<=x1)j++;
else break}
let best=-1;for(let k=0;k<11;k++){owed[k]+=share[k];if(share[k]>1e-6&&(best<0||owed[k]>owed[best]))best=k}
if(best<0)best=BUBBLE;owed[best]-=1;out[offset+c]=colour[best];
for(let k=0;k<11;k++){if(owed[k]>1)owed[k]=1;if(owed[k]<-1)owed[k]=-1}}}
function duration(ps){const u=[[1e12,'s'],[1e9,'ms'],[1e6,'µs'],[1e3,'ns']].find(x=>Math.abs(ps)>=x[0]*0.9995)||[1,'ps'];
return(ps/u[0]).toPrecision(Math.abs(ps/u[0])>=999.5?4:3)+' '+u[1]}
function setup(box){const data=JSON.parse(box.dataset.g),total=Math.round(data.step/data.quantum);
const bytes=unpack(data.lanes);let taken=0;
const lanes=data.sizes.map(size=>lane(bytes.slice(taken,taken+=size),data.tokens)),n=lanes.length;
const many=lanes.some(l=>l.passes.some(p=>p.chunk>0));
const high=n<=8?22:n<=16?16:n<=32?12:n<=64?9:5,pitch=high+(high>12?5:high>8?2:1),axis=20,left=58,height=n*pitch+axis+6;
const bar=document.createElement('div');bar.className='tools';const canvas=document.createElement('canvas');canvas.tabIndex=0;
canvas.setAttribute('role','img');canvas.setAttribute('aria-label','pipeline timeline; plus and minus zoom, arrows move, 0 shows all');
canvas.style.height=height+'px';const back=document.createElement('canvas');let view=[0,total],width=0,colour,rgb,waiting=false;
const button=(text,title,act)=>{const b=document.createElement('button');b.textContent=text;b.title=title;b.onclick=act;bar.append(b)};
button('−','zoom out',()=>zoom(2,.5));button('+','zoom in',()=>zoom(.5,.5));button('whole step','show the whole step',()=>move(0,total));
const hint=document.createElement('span');hint.className='soft';hint.textContent='Ctrl + wheel, pinch or double-click zooms, dragging moves';
bar.append(hint);box.append(bar,canvas);
function theme(){const s=getComputedStyle(document.documentElement);colour=NAMES.map(x=>s.getPropertyValue('--'+x).trim());
rgb=new Uint32Array(colour.map(x=>{const v=parseInt(x.slice(1),16);return(255<<24|(v&255)<<16|(v>>8&255)<<8|v>>16)>>>0}));
colour.ink=s.getPropertyValue('--ink').trim();colour.soft=s.getPropertyValue('--soft').trim();colour.bg=s.getPropertyValue('--bg').trim()}
function move(a,b){let span=Math.min(total,Math.max(b-a,Math.min(total,64)));a=Math.max(0,Math.min(total-span,a));view=[a,a+span];later()}
function zoom(factor,where){const span=view[1]-view[0],at=view[0]+span*where;move(at-span*factor*where,at+span*factor*(1-where))}
function later(){if(!waiting){waiting=true;requestAnimationFrame(draw)}}
function draw(){waiting=false;const ratio=window.devicePixelRatio||1;width=canvas.clientWidth;if(!width)return;if(!colour)theme();
const plot=Math.max(40,width-left-4),count=Math.round(plot*ratio);
if(canvas.width!==Math.round(width*ratio)||canvas.height!==Math.round(height*ratio)){canvas.width=Math.round(width*ratio);
canvas.height=Math.round(height*ratio)}
back.width=count;back.height=n;const b=back.getContext('2d'),image=b.createImageData(count,n),pixels=new Uint32Array(image.data.buffer);
for(let i=0;i<n;i++)columns(lanes[i],view[0],view[1],count,pixels,i*count,rgb);b.putImageData(image,0,0);
const g=canvas.getContext('2d');g.setTransform(ratio,0,0,ratio,0,0);g.clearRect(0,0,width,height);g.imageSmoothingEnabled=false;
g.font='11px system-ui,sans-serif';g.textBaseline='middle';const every=Math.ceil(13/pitch),scale=plot/(view[1]-view[0]);
for(let i=0;i<n;i++){g.drawImage(back,0,i,count,1,left,i*pitch,plot,high);
if(i%every===0){g.fillStyle=colour.soft;g.textAlign='right';g.fillText('stage '+data.stages[i],left-8,i*pitch+high/2+.5)}
if(high<12)continue;const ps=lanes[i].passes;let k=0,hi=ps.length;while(k<hi){const m=k+hi>>1;if(ps[m].end>view[0])hi=m;else k=m+1}
const first=k;let last=k;while(last<ps.length&&ps[last].start<view[1])last++;if((last-first)*8>plot*2)continue;
g.textAlign='center';let edge=-1e9;
for(k=first;k<last;k++){const p=ps[k],x=left+(p.start-view[0])*scale,w=(p.end-p.start)*scale;
if(w>=7&&x-edge<1.5&&x>left){g.fillStyle=colour.bg;g.fillRect(x-.5,i*pitch,1,high)}edge=w>=7?x+w:-1e9;if(p.batch<0)continue;
const text=many?p.batch+'.'+p.chunk:String(p.batch),x0=Math.max(x,left),x1=Math.min(x+w,left+plot);
if(x1-x0>=7+6.2*text.length){g.lineWidth=2;g.lineJoin='round';g.strokeStyle='rgba(0,0,0,.38)';g.strokeText(text,(x0+x1)/2,i*pitch+high/2+.5);
g.fillStyle='#fff';g.fillText(text,(x0+x1)/2,i*pitch+high/2+.5)}}}
ticks(g,plot,n*pitch);
if(view[1]-view[0]<total){g.fillStyle=colour.soft;g.globalAlpha=.3;g.fillRect(left,height-3,plot,3);g.globalAlpha=1;
g.fillRect(left+plot*view[0]/total,height-3,Math.max(3,plot*(view[1]-view[0])/total),3)}}
function ticks(g,plot,y){const a=view[0]*data.quantum,b=view[1]*data.quantum,room=plot/Math.max(2,Math.floor(plot/90));
let step=Math.pow(10,Math.floor(Math.log10((b-a)*room/plot)));for(const f of[1,2,5,10])if(step*f*plot/(b-a)>=room){step*=f;break}
const u=[[1e12,'s'],[1e9,'ms'],[1e6,'µs'],[1e3,'ns'],[1,'ps']].find(x=>b>=x[0])||[1,'ps'];
const decimals=Math.max(0,Math.min(9,Math.ceil(-Math.log10(step/u[0])-1e-9)));g.fillStyle=colour.soft;g.strokeStyle=colour.soft;g.lineWidth=1;
g.textAlign='center';for(let t=Math.ceil(a/step-1e-9)*step;t<=b*(1+1e-9);t+=step){const x=left+(t-a)/(b-a)*plot;g.fillRect(x,y,1,4);
const text=(t/u[0]).toFixed(decimals)+' '+u[1],half=g.measureText(text).width/2;
g.fillText(text,Math.max(left+half-8,Math.min(left+plot-half,x)),y+11)}}
function hover(event){const r=canvas.getBoundingClientRect(),x=event.clientX-r.left,y=event.clientY-r.top,plot=width-left-4;
const i=Math.floor(y/pitch);if(i<0||i>=n||x<left||x>left+plot){tip.hidden=true;return}
const l=lanes[i],q=(view[1]-view[0])/plot,t=view[0]+(x-left)*q,k=after(l.end,t);if(k>=l.end.length){tip.hidden=true;return}
const start=(k?l.end[k-1]:0)*data.quantum,end=l.end[k]*data.quantum,more=after(l.end,t+q/2)-after(l.end,t-q/2);
const lines=['stage '+data.stages[i]+(l.kind[k]!==BUBBLE&&l.batch[k]>=0?', micro-batch '+l.batch[k]+(many?', chunk '+l.chunk[k]:''):''),
TITLES[l.kind[k]]+', '+duration(end-start),'from '+duration(start)+' to '+duration(end)];
if(more>0)lines.push('one of '+(more+1)+' under the pointer; zoom in');
tip.textContent=lines.join('\n');tip.hidden=false;const w=tip.offsetWidth,h=tip.offsetHeight;
tip.style.left=Math.max(4,Math.min(innerWidth-w-4,event.clientX+14))+'px';
tip.style.top=(event.clientY+18+h>innerHeight?event.clientY-h-12:event.clientY+18)+'px'}
const held=new Map();let grip=null;
canvas.addEventListener('pointerdown',e=>{held.set(e.pointerId,e.clientX);if(held.size<=2&&canvas.setPointerCapture)
try{canvas.setPointerCapture(e.pointerId)}catch(_){}grip={view:view.slice(),x:[...held.values()]}});
canvas.addEventListener('pointermove',e=>{if(!held.has(e.pointerId)){hover(e);return}held.set(e.pointerId,e.clientX);
const r=canvas.getBoundingClientRect(),plot=width-left-4,q=(grip.view[1]-grip.view[0])/plot,x=[...held.values()];
if(x.length===2&&grip.x.length===2){const was=Math.abs(grip.x[1]-grip.x[0])||1,is=Math.abs(x[1]-x[0])||1,
at=grip.view[0]+((grip.x[0]+grip.x[1])/2-r.left-left)*q,span=(grip.view[1]-grip.view[0])*was/is,
where=((x[0]+x[1])/2-r.left-left)/plot;move(at-span*where,at+span*(1-where))}
else if(x.length===1){const d=(e.clientX-grip.x[0])*q;if(Math.abs(e.clientX-grip.x[0])>2){tip.hidden=true;
move(grip.view[0]-d,grip.view[1]-d)}else hover(e)}});
const drop=e=>{held.delete(e.pointerId);grip={view:view.slice(),x:[...held.values()]}};
canvas.addEventListener('pointerup',drop);canvas.addEventListener('pointercancel',drop);
canvas.addEventListener('pointerleave',()=>{tip.hidden=true});
canvas.addEventListener('wheel',e=>{const r=canvas.getBoundingClientRect(),plot=width-left-4;
if(e.ctrlKey||e.metaKey){e.preventDefault();zoom(Math.exp(Math.max(-1,Math.min(1,e.deltaY*.005))),
Math.max(0,Math.min(1,(e.clientX-r.left-left)/plot)))}
else if(Math.abs(e.deltaX)>Math.abs(e.deltaY)&&view[1]-view[0]<total){e.preventDefault();
const d=e.deltaX*(view[1]-view[0])/plot;move(view[0]+d,view[1]+d)}},{passive:false});
canvas.addEventListener('dblclick',e=>{const r=canvas.getBoundingClientRect();
zoom(.25,Math.max(0,Math.min(1,(e.clientX-r.left-left)/(width-left-4))))});
canvas.addEventListener('keydown',e=>{const span=view[1]-view[0];if(e.key==='+'||e.key==='=')zoom(.5,.5);else if(e.key==='-')zoom(2,.5);
else if(e.key==='0')move(0,total);else if(e.key==='ArrowLeft')move(view[0]-span/8,view[1]-span/8);
else if(e.key==='ArrowRight')move(view[0]+span/8,view[1]+span/8);else return;e.preventDefault()});
new ResizeObserver(later).observe(canvas);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change',()=>{colour=null;later()});
box.view=()=>view.map(x=>x*data.quantum);later()}
// Pictures far below are set up when they come near.
const near=new IntersectionObserver(list=>{for(const e of list)if(e.isIntersecting){near.unobserve(e.target);setup(e.target)}},
{rootMargin:'2000px'});
document.documentElement.classList.add('live');
for(const box of document.querySelectorAll('.live-gantt'))near.observe(box);
})();
)js";
}

}  // namespace benchsuite::html
